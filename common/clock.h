// Time enters the product here: boot time decides, wall time is for display and certificates.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace launch {

using Millis = std::chrono::milliseconds;

// CLOCK_BOOTTIME of this host; goes on during suspend, never jumps. Has no now(): ask a Clock.
struct BootClock {
  using duration = Millis;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
};
using BootTime = BootClock::time_point;

// Milliseconds since 1970-01-01 UTC. May jump; never used for a decision.
struct WallClock {
  using duration = Millis;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<WallClock>;
  static constexpr bool is_steady = false;
};
using WallTime = WallClock::time_point;

inline BootTime BootMs(std::int64_t ms) { return BootTime{Millis{ms}}; }
inline WallTime WallMs(std::int64_t ms) { return WallTime{Millis{ms}}; }
inline std::int64_t ToMs(BootTime t) { return t.time_since_epoch().count(); }
inline std::int64_t ToMs(WallTime t) { return t.time_since_epoch().count(); }

class Clock {
 public:
  virtual ~Clock() = default;
  virtual BootTime Now() = 0;
  virtual WallTime WallNow() = 0;
};

// The host's clocks. Thread-safe.
class SystemClock final : public Clock {
 public:
  BootTime Now() override;
  WallTime WallNow() override;
};

}  // namespace launch
