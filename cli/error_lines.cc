#include "cli/error_lines.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "common/text.h"

namespace launch {
namespace {

// In lower case. "error" with a letter in front or behind is part of a name that says so too.
constexpr std::array<std::string_view, 18> kWords = {
    "error",     "exception", "fatal",           "traceback", "segmentation fault",
    "aborted",   "abort(",    "core dumped",     "killed",    "out of memory",
    "assertion", "nccl warn", "watchdog",        "failed",    "failure",
    "panic",     "bus error", "terminate called"};

// What programs print of good days.
constexpr std::array<std::string_view, 4> kHarmless = {"0 errors", "0 failed", "no error",
                                                       "error_if"};

// "torch.OutOfMemoryError: CUDA out of memory", "KeyboardInterrupt": begins at the margin.
bool IsException(std::string_view line) {
  const std::size_t end = line.find_first_of(": ");
  const std::string_view name = line.substr(0, end);
  const bool word = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.';
  });
  const bool colon = end == std::string_view::npos || line[end] == ':';
  return word && colon && std::isalpha(static_cast<unsigned char>(name.front())) != 0;
}

// The line behind what torch ("[rank1]: ") and torchrun ("[default1]:") put in front of it.
std::string_view BehindRank(std::string_view line) {
  const std::size_t end = line.find("]:");
  if (!line.starts_with('[') || end == std::string_view::npos) return line;
  const std::string_view name = line.substr(1, end - 1);
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string_view word = name.substr(0, digits);
  if (digits == name.size() || (word != "rank" && word != "default")) return line;
  line.remove_prefix(end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

}  // namespace

bool ErrorLines::Take(std::string_view line) {
  line = BehindRank(line);
  if (line.find("Traceback (most recent call last)") != std::string_view::npos) {
    inside_ = true;
    return true;
  }
  if (inside_) {
    const bool indented = line.empty() || line.front() == ' ' || line.front() == '\t';
    if (indented) return true;
    inside_ = line.starts_with("During handling of") || line.starts_with("The above exception");
    if (inside_ || IsException(line)) return true;
  }
  const std::string lower = Lower(line);
  const auto has = [&](std::string_view word) { return lower.find(word) != std::string::npos; };
  return std::any_of(kWords.begin(), kWords.end(), has) &&
         std::none_of(kHarmless.begin(), kHarmless.end(), has);
}

}  // namespace launch
