// What Ctrl-C leaves behind, said while leaving.
#pragma once

#include <signal.h>

#include <string>

namespace launch {

// While a LeaveNote lives, SIGINT writes the note and ends the program with kInterrupted; an
// ignored SIGINT stays ignored. At most one lives at a time.
class LeaveNote {
 public:
  explicit LeaveNote(const std::string& note);
  LeaveNote(const LeaveNote&) = delete;
  LeaveNote& operator=(const LeaveNote&) = delete;
  ~LeaveNote();

 private:
  std::string text_;
  struct sigaction before_ {};
};

}  // namespace launch
