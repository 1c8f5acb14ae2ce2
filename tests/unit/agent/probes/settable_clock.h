// A clock that stands still until a test moves it.
#pragma once

#include "common/clock.h"

namespace launch::agent {

class SettableClock final : public Clock {
 public:
  BootTime Now() override { return now_; }
  WallTime WallNow() override { return WallMs(1'700'000'000'000 + ToMs(now_)); }
  void Advance(Millis by) { now_ += by; }

 private:
  BootTime now_ = BootMs(1'000'000);
};

}  // namespace launch::agent
