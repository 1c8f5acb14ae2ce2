#include "cli/up/upgrade.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace launch::up {
namespace {

struct Numbers {
  int major = 0;
  int minor = 0;
  int patch = 0;
  friend auto operator<=>(const Numbers&, const Numbers&) = default;
};

std::optional<Numbers> NumbersOf(std::string_view version) {
  Numbers numbers;
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int* part : {&numbers.major, &numbers.minor, &numbers.patch}) {
    const auto read = std::from_chars(at, end, *part);
    if (read.ec != std::errc()) return std::nullopt;
    at = read.ptr;
    if (part == &numbers.patch) break;
    if (at == end || *at != '.') return std::nullopt;
    ++at;
  }
  return numbers;
}

Unexpected NoStep(std::string_view from, std::string_view to, const std::string& hint) {
  return Fail(ErrorCode::kFailedPrecondition,
              "the cluster has version " + std::string(from) + ", this is " + std::string(to),
              hint);
}

}  // namespace

Result<void> CheckUpgrade(std::string_view from, std::string_view to) {
  const auto old_one = NumbersOf(from);
  const auto new_one = NumbersOf(to);
  if (!old_one || !new_one) return NoStep(from, to, "one of them is not a version of ours");
  if (*new_one < *old_one)
    return NoStep(from, to,
                  "an older controller does not read a newer store; use a launch of the "
                  "cluster's version or a newer one");
  if (new_one->major != old_one->major || new_one->minor > old_one->minor + 1)
    return NoStep(from, to,
                  "agents and controller speak to each other over one minor version: "
                  "upgrade to " +
                      std::to_string(old_one->major) + "." + std::to_string(old_one->minor + 1) +
                      " first");
  return {};
}

}  // namespace launch::up
