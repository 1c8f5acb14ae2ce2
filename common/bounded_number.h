// Numbers that somebody else computed or wrote, as integers: a conversion of a double that the
// integer cannot hold is undefined.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "common/clock.h"

namespace launch {

// The whole number `value` from `low` to `high`; absent for any other and for NaN. The bounds are
// below 2^53, so that a double holds them exactly.
inline std::optional<std::int64_t> WholeIn(double value, std::int64_t low, std::int64_t high) {
  const bool within = value >= static_cast<double>(low) && value <= static_cast<double>(high);
  if (!within || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

inline constexpr double kLongestSeconds = 1e10;  // some 300 years: a WallTime still has room for it

// `seconds` in whole milliseconds, clamped to between 0 and kLongestSeconds; 0 for NaN.
inline Millis MillisOf(double seconds) {
  if (!(seconds > 0)) return Millis{0};
  return Millis{static_cast<std::int64_t>(std::min(seconds, kLongestSeconds) * 1000)};
}

}  // namespace launch
