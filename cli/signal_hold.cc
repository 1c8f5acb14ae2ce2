#include "cli/signal_hold.h"

#include <cstddef>

namespace launch {
namespace {

// A signal handler has no other way to tell.
volatile sig_atomic_t came = 0;

extern "C" void NoteSignal(int signal) { came = signal; }

}  // namespace

std::shared_ptr<SignalHold> SignalHold::Begin() { return std::make_shared<SignalHold>(); }

SignalHold::SignalHold() {
  for (std::size_t i = 0; i < kHeld.size(); ++i) {
    ::sigaction(kHeld[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_DFL) continue;
    struct sigaction note {};
    note.sa_handler = NoteSignal;
    note.sa_flags = SA_RESTART;
    held_[i] = ::sigaction(kHeld[i], &note, nullptr) == 0;
  }
}

SignalHold::~SignalHold() {
  bool mine = false;
  for (std::size_t i = 0; i < kHeld.size(); ++i) {
    if (held_[i]) ::sigaction(kHeld[i], &before_[i], nullptr);
    mine = mine || (held_[i] && kHeld[i] == came);
  }
  if (!mine) return;
  const int signal = came;
  came = 0;
  ::raise(signal);
}

}  // namespace launch
