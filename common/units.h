// Durations, byte sizes and their texts, as users write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/error.h"

namespace launch {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr double kGiBytes = static_cast<double>(kGiB);  // where sizes are computed with

// "90s", "10m", "12h", "1d12h", "250ms", Slurm's "HH:MM:SS", "D-HH:MM:SS", "D-HH"; a bare number
// and "MM:SS"-like two-part colons are ambiguous: the error names both readings.
Result<Millis> ParseDuration(std::string_view text);
std::string FormatDuration(Millis duration);       // "1:02:11", "2-03:00:00": Slurm's TIME column
std::string FormatDurationShort(Millis duration);  // "6h10m", "45s": shortest two units
// "2026-12-01T20:00:00+0100": ISO 8601 in the zone of this process.
std::string FormatLocalIso(WallTime time);

struct ByteSize {
  std::uint64_t bytes = 0;
  bool bare_suffix = false;  // "16G": read as GiB, worth a notice
  friend bool operator==(const ByteSize&, const ByteSize&) = default;
};
// "200GB" = 200*10^9, "16GiB" = 16*2^30, "16G" = GiB with bare_suffix; K, M, G, T; no negative.
Result<ByteSize> ParseBytes(std::string_view text);
std::string FormatBytes(std::uint64_t bytes);  // "95.6GiB", "512MiB"; binary units, one decimal

// `value` by a printf format with one double conversion: "%.1f GiB".
std::string FormatNumber(double value, const char* format);

double RoundedGib(double bytes);  // in hundredths of a GiB, so that terms add up as printed

// Strict numbers: the whole text, no sign surprises, no base prefixes, no spaces.
std::optional<std::int64_t> ParseInt(std::string_view text);
std::optional<double> ParseDouble(std::string_view text);

}  // namespace launch
