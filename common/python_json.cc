#include "common/python_json.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace launch {
namespace {

constexpr std::string_view kNoNumbers[] = {"NaN", "Infinity", "-Infinity"};

// Behind the string that begins at `at`.
std::size_t EndOfJsonString(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

}  // namespace

std::string WithoutNan(std::string_view text) {
  std::string strict;
  strict.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find_first_of("\"NI-", at), text.size());
    strict += text.substr(at, end - at);
    at = end;
    if (at == text.size()) break;
    const std::string_view rest = text.substr(at);
    const auto* const word = std::ranges::find_if(
        kNoNumbers, [rest](std::string_view one) { return rest.starts_with(one); });
    if (word != std::end(kNoNumbers)) {
      strict += "null";
      at += word->size();
      continue;
    }
    end = text[at] == '"' ? EndOfJsonString(text, at) : at + 1;
    strict += text.substr(at, end - at);
    at = end;
  }
  return strict;
}

}  // namespace launch
