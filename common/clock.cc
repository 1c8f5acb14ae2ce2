#include "common/clock.h"

#include <ctime>

namespace launch {
namespace {

std::int64_t ReadMs(clockid_t id) {
  timespec now{};
  ::clock_gettime(id, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

BootTime SystemClock::Now() { return BootMs(ReadMs(CLOCK_BOOTTIME)); }
WallTime SystemClock::WallNow() { return WallMs(ReadMs(CLOCK_REALTIME)); }

}  // namespace launch
