#include "common/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>

#include "common/text.h"

namespace launch {
namespace {

constexpr std::int64_t kMaxMillis = std::int64_t{10} * 365 * 24 * 3600 * 1000;  // ten years

std::optional<std::int64_t> UnitMillis(std::string_view unit) {
  if (unit == "ms") return 1;
  if (unit == "s") return 1000;
  if (unit == "m" || unit == "min") return 60 * 1000;
  if (unit == "h") return 3600 * 1000;
  if (unit == "d") return 24 * 3600 * 1000;
  if (unit == "w") return 7 * 24 * 3600 * 1000;
  return std::nullopt;
}

Unexpected BadDuration(std::string_view text, std::string why) {
  return Fail(ErrorCode::kInvalidArgument, "'" + std::string(text) + "' is not a duration: " + why,
              "write 90s, 10m, 12h, 1d12h, HH:MM:SS or D-HH:MM:SS");
}

// Slurm's colon forms: HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS.
Result<Millis> ParseColonDuration(std::string_view text) {
  std::int64_t days = 0;
  std::string_view rest = text;
  const bool has_days = text.find('-') != std::string_view::npos;
  if (has_days) {
    const auto dash = text.find('-');
    const auto parsed = ParseInt(text.substr(0, dash));
    if (!parsed || *parsed < 0 || *parsed > 3650)
      return BadDuration(text, "the days are not a number");
    days = *parsed;
    rest = text.substr(dash + 1);
  }
  std::array<std::int64_t, 3> parts{};
  std::size_t count = 0;
  while (count < 3) {
    const auto colon = rest.find(':');
    const auto piece = rest.substr(0, colon);
    if (piece.empty() || piece.size() > 6 || !IsDigit(piece[0])) {
      return BadDuration(text, "expected digits between the colons");
    }
    const auto parsed = ParseInt(piece);
    if (!parsed) return BadDuration(text, "expected digits between the colons");
    parts[count++] = *parsed;
    if (colon == std::string_view::npos) {
      rest = {};
      break;
    }
    rest = rest.substr(colon + 1);
  }
  if (!rest.empty()) return BadDuration(text, "too many colons");
  if (!has_days && count == 2) {
    return BadDuration(text, "it could mean " + std::to_string(parts[0]) + " hours " +
                                 std::to_string(parts[1]) + " minutes or " +
                                 std::to_string(parts[0]) + " minutes " + std::to_string(parts[1]) +
                                 " seconds");
  }
  if (count > 1 && parts[1] > 59) return BadDuration(text, "minutes go to 59");
  if (parts[2] > 59) return BadDuration(text, "seconds go to 59");
  const std::int64_t seconds = ((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2];
  if (seconds * 1000 > kMaxMillis) return BadDuration(text, "longer than ten years");
  return Millis{seconds * 1000};
}

struct SizeUnit {
  std::string_view name;
  std::uint64_t bytes;
  bool bare;
};
constexpr std::uint64_t kK = 1000;
constexpr SizeUnit kSizeUnits[] = {
    {"B", 1, false},
    {"KB", kK, false},
    {"MB", kK* kK, false},
    {"GB", kK* kK* kK, false},
    {"TB", kK* kK* kK* kK, false},
    {"KiB", kKiB, false},
    {"MiB", kMiB, false},
    {"GiB", kGiB, false},
    {"TiB", kGiB * 1024, false},
    {"K", kKiB, true},
    {"M", kMiB, true},
    {"G", kGiB, true},
    {"T", kGiB * 1024, true},
};

bool SameText(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

}  // namespace

double RoundedGib(double bytes) {
  return std::round(bytes / static_cast<double>(kGiB) * 100) / 100;
}

std::string FormatNumber(double value, const char* format) {
  char text[96];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::optional<std::int64_t> ParseInt(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseDouble(std::string_view text) {
  if (text.empty() || !(IsDigit(text.front()) || text.front() == '-' || text.front() == '.')) {
    return std::nullopt;  // no "inf", "nan", leading '+' or blanks
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

Result<Millis> ParseDuration(std::string_view text) {
  if (text.empty()) return BadDuration(text, "it is empty");
  if (text.find(':') != std::string_view::npos ||
      (text.find('-') != std::string_view::npos && text.front() != '-')) {
    return ParseColonDuration(text);
  }
  if (text.front() == '-') return BadDuration(text, "it is negative");
  std::int64_t total = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::size_t digits = 0;
    while (digits < rest.size() && (IsDigit(rest[digits]) || rest[digits] == '.')) ++digits;
    std::size_t end = digits;
    while (end < rest.size() && !IsDigit(rest[end]) && rest[end] != '.') ++end;
    const auto number = ParseDouble(rest.substr(0, digits));
    const auto unit = rest.substr(digits, end - digits);
    if (!number) return BadDuration(text, "expected a number before '" + std::string(unit) + "'");
    if (unit.empty()) {
      const std::string plural = *number == 1 ? "" : "s";
      return BadDuration(text, "it has no unit and could mean " + std::string(text) + " second" +
                                   plural + " or " + std::string(text) + " minute" + plural);
    }
    const auto factor = UnitMillis(unit);
    if (!factor) return BadDuration(text, "'" + std::string(unit) + "' is not a unit of time");
    const double ms = *number * static_cast<double>(*factor);
    if (ms > static_cast<double>(kMaxMillis - total))
      return BadDuration(text, "longer than ten years");
    total += std::llround(ms);
    rest = rest.substr(end);
  }
  return Millis{total};
}

std::string FormatDuration(Millis duration) {
  std::int64_t seconds = duration.count() / 1000;
  if (seconds < 0) seconds = 0;
  const std::int64_t days = seconds / 86400;
  const int hours = static_cast<int>(seconds / 3600 % 24);
  const int minutes = static_cast<int>(seconds / 60 % 60);
  const int rest = static_cast<int>(seconds % 60);
  char text[48];
  if (days > 0) {
    std::snprintf(text, sizeof text, "%lld-%02d:%02d:%02d", static_cast<long long>(days), hours,
                  minutes, rest);
  } else if (hours > 0) {
    std::snprintf(text, sizeof text, "%d:%02d:%02d", hours, minutes, rest);
  } else {
    std::snprintf(text, sizeof text, "%d:%02d", minutes, rest);
  }
  return text;
}

std::string FormatDurationShort(Millis duration) {
  const std::int64_t ms = duration.count();
  if (ms < 0) return "0s";
  if (ms < 1000) return std::to_string(ms) + "ms";
  const std::int64_t seconds = ms / 1000;
  const struct {
    std::int64_t size;
    char unit;
  } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
  for (std::size_t i = 0; i < 4; ++i) {
    if (seconds < units[i].size) continue;
    std::string text = std::to_string(seconds / units[i].size) + units[i].unit;
    if (i + 1 < 4) {
      const std::int64_t next = seconds % units[i].size / units[i + 1].size;
      if (next > 0) text += std::to_string(next) + units[i + 1].unit;
    }
    return text;
  }
  return "0s";
}

std::string FormatLocalIso(WallTime time) {
  const auto seconds = static_cast<std::time_t>(ToMs(time) / 1000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 48> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &parts);
  return {text.data(), size};
}

Result<ByteSize> ParseBytes(std::string_view text) {
  const auto bad = [&](std::string why) {
    return Fail(ErrorCode::kInvalidArgument, "'" + std::string(text) + "' is not a size: " + why,
                "write 200GB (10^9), 16GiB (2^30) or 512MiB");
  };
  std::size_t digits = 0;
  while (digits < text.size() && (IsDigit(text[digits]) || text[digits] == '.')) ++digits;
  const auto number = ParseDouble(text.substr(0, digits));
  if (!number) return bad("expected a number first");
  std::string_view unit = text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty()) return bad("it has no unit");
  for (const SizeUnit& row : kSizeUnits) {
    if (!SameText(row.name, unit)) continue;
    const double bytes = *number * static_cast<double>(row.bytes);
    if (bytes >= 9.2e18) return bad("too large");
    return ByteSize{static_cast<std::uint64_t>(std::llround(bytes)), row.bare};
  }
  return bad("'" + std::string(unit) + "' is not a unit");
}

std::string FormatBytes(std::uint64_t bytes) {
  const struct {
    std::uint64_t size;
    const char* unit;
  } units[] = {{kGiB * 1024, "TiB"}, {kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}};
  for (const auto& [size, unit] : units) {
    if (bytes < size) continue;
    char text[32];
    if (bytes % size == 0) {
      std::snprintf(text, sizeof text, "%llu%s", static_cast<unsigned long long>(bytes / size),
                    unit);
    } else {
      std::snprintf(text, sizeof text, "%.1f%s",
                    static_cast<double>(bytes) / static_cast<double>(size), unit);
    }
    return text;
  }
  return std::to_string(bytes) + "B";
}

}  // namespace launch
