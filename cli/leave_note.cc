#include "cli/leave_note.h"

#include <unistd.h>

#include "cli/interrupt_guard.h"

namespace launch {
namespace {

// A signal handler has no other way to know.
const std::string* volatile said = nullptr;

extern "C" void SayAndLeave(int /*signal*/) {
  [[maybe_unused]] const ssize_t wrote = ::write(STDERR_FILENO, said->data(), said->size());
  ::_exit(kInterrupted);
}

}  // namespace

LeaveNote::LeaveNote(const std::string& note) : text_("\n" + note + "\n") {
  ::sigaction(SIGINT, nullptr, &before_);
  if (before_.sa_handler != SIG_DFL) return;
  said = &text_;
  struct sigaction leave {};
  leave.sa_handler = SayAndLeave;
  ::sigaction(SIGINT, &leave, nullptr);
}

LeaveNote::~LeaveNote() { ::sigaction(SIGINT, &before_, nullptr); }

}  // namespace launch
