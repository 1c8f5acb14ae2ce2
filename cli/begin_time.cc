#include "cli/begin_time.h"

#include <ctime>
#include <optional>
#include <string>

#include "common/units.h"

namespace launch {
namespace {

constexpr int kMinute = 60;

Unexpected Bad(std::string_view text, std::string why) {
  return Fail(ErrorCode::kInvalidArgument, "`" + std::string(text) + "` " + std::move(why),
              "2026-12-01T20:00, 20:00, tomorrow or now+2h");
}

// Exactly `digits` digits at the front of `text`, within low..high; taken off it.
std::optional<int> Take(std::string_view& text, std::size_t digits, int low, int high) {
  const auto number = ParseInt(text.substr(0, digits));
  if (!number || text.size() < digits || *number < low || *number > high) return std::nullopt;
  text.remove_prefix(digits);
  return static_cast<int>(*number);
}

bool TakeChar(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// "20:00" or "20:00:30" into `time`.
bool TakeClock(std::string_view& text, std::tm& time) {
  const auto hour = Take(text, 2, 0, 23);
  if (!hour || !TakeChar(text, ':')) return false;
  const auto minute = Take(text, 2, 0, 59);
  if (!minute) return false;
  time.tm_hour = *hour;
  time.tm_min = *minute;
  time.tm_sec = 0;
  if (!TakeChar(text, ':')) return true;
  const auto second = Take(text, 2, 0, 59);
  if (second) time.tm_sec = *second;
  return second.has_value();
}

// "+02:00", "-0530": seconds east of Greenwich.
std::optional<int> TakeZone(std::string_view& text) {
  const int sign = TakeChar(text, '-') ? -1 : TakeChar(text, '+') ? 1 : 0;
  const auto hours = Take(text, 2, 0, 14);
  if (sign == 0 || !hours) return std::nullopt;
  TakeChar(text, ':');
  const auto minutes = Take(text, 2, 0, 59);
  if (!minutes) return std::nullopt;
  return sign * (*hours * 60 + *minutes) * kMinute;
}

WallTime Local(std::tm time) {
  time.tm_isdst = -1;
  return WallMs(static_cast<std::int64_t>(std::mktime(&time)) * 1000);
}

std::tm LocalNow(WallTime now) {
  const auto seconds = static_cast<std::time_t>(ToMs(now) / 1000);
  std::tm time{};
  ::localtime_r(&seconds, &time);
  return time;
}

Result<WallTime> Date(std::string_view text) {
  std::string_view rest = text;
  std::tm time{};
  const auto year = Take(rest, 4, 1970, 9999);
  const bool dash = TakeChar(rest, '-');
  const auto month = Take(rest, 2, 1, 12);
  const bool second = TakeChar(rest, '-');
  const auto day = Take(rest, 2, 1, 31);
  if (!year || !dash || !month || !second || !day) return Bad(text, "is not a time");
  time.tm_year = *year - 1900;
  time.tm_mon = *month - 1;
  time.tm_mday = *day;
  if (!rest.empty()) {
    if (!TakeChar(rest, 'T') && !TakeChar(rest, ' ')) return Bad(text, "is not a time");
    if (!TakeClock(rest, time)) return Bad(text, "has no time of the day such as 20:00");
  }
  std::tm normal = time;
  ::timegm(&normal);
  if (normal.tm_mday != time.tm_mday) return Bad(text, "is a day that does not exist");
  if (rest.empty()) return Local(time);
  const std::optional<int> zone = rest == "Z" ? std::optional<int>(0) : TakeZone(rest);
  if (!zone || (rest != "Z" && !rest.empty())) return Bad(text, "ends in no zone such as +02:00");
  return WallMs((static_cast<std::int64_t>(::timegm(&time)) - *zone) * 1000);
}

}  // namespace

Result<WallTime> ParseBegin(std::string_view text, WallTime now) {
  if (text == "now") return now;
  const std::size_t plus = text.starts_with("now+") ? 4 : text.starts_with("+") ? 1 : 0;
  if (plus > 0) {
    LAUNCH_ASSIGN_OR_RETURN(const Millis wait, ParseDuration(text.substr(plus)));
    return now + wait;
  }
  if (text == "tomorrow") {
    std::tm time = LocalNow(now);
    time.tm_mday += 1;
    time.tm_hour = time.tm_min = time.tm_sec = 0;
    return Local(time);
  }
  std::tm time = LocalNow(now);
  std::string_view rest = text;
  if (text.find('-') == std::string_view::npos && TakeClock(rest, time) && rest.empty()) {
    WallTime at = Local(time);
    if (at <= now) {
      time.tm_mday += 1;
      at = Local(time);
    }
    return at;
  }
  return Date(text);
}

}  // namespace launch
