#include "common/progress_pattern.h"

#include <utility>

namespace launch {
namespace {

constexpr std::size_t kMostPatternBytes = 1024;

}  // namespace

re2::RE2::Options LogPatternOptions() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(8 << 20);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // logs are bytes
  return options;
}

Result<ProgressPattern> ParseProgressPattern(const std::string& text) {
  if (text.size() > kMostPatternBytes) {
    return Fail(ErrorCode::kInvalidArgument, "is longer than 1 KiB");
  }
  auto regex = std::make_unique<re2::RE2>(text, LogPatternOptions());
  if (!regex->ok()) {
    return Fail(ErrorCode::kInvalidArgument, "is no pattern: " + regex->error(),
                "RE2 syntax, which has no look-ahead and no back references");
  }
  ProgressPattern pattern;
  const auto& groups = regex->NamedCapturingGroups();
  if (const auto step = groups.find("step"); step != groups.end()) pattern.step = step->second;
  if (const auto steps = groups.find("steps"); steps != groups.end()) pattern.steps = steps->second;
  if (regex->NumberOfCapturingGroups() < pattern.step) {
    return Fail(ErrorCode::kInvalidArgument, "has no group for the step",
                R"(put the step in parentheses: 'step (\d+)/(\d+)')");
  }
  pattern.regex = std::move(regex);
  return pattern;
}

}  // namespace launch
