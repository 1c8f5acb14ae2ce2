// Signals that end the program wait until it has cleared away what it made.
#pragma once

#include <signal.h>

#include <array>
#include <memory>

namespace launch {

// While one lives, SIGINT, SIGTERM and SIGHUP do not end the program; with the last one they do,
// if one came. Programs that were started meanwhile get them as ever. Signals that somebody else
// takes or ignores stay theirs. Of the main thread.
class SignalHold {
 public:
  static std::shared_ptr<SignalHold> Begin();
  SignalHold();
  SignalHold(const SignalHold&) = delete;
  SignalHold& operator=(const SignalHold&) = delete;
  ~SignalHold();

 private:
  static constexpr std::array<int, 3> kHeld = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
  std::array<bool, 3> held_{};
};

}  // namespace launch
