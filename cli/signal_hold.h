// Signals that end the program wait until it has cleared away what it made.
#pragma once

#include <signal.h>

#include <array>
#include <memory>

namespace launch {

// While a SignalHold lives, SIGINT, SIGTERM and SIGHUP do not end the program; if one came, it does
// when the last SignalHold goes. Programs started meanwhile get signals as usual. Signals that are
// handled or ignored already stay so. For the main thread only.
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
