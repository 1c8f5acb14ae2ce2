// The closed list of preflight codes (docs/preflight.md is made from it).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

struct PreflightCode {
  std::string_view code;
  std::string_view check;     // name of its line in `launch check`
  std::string_view severity;  // "error", "error or warning" ...
  std::string_view looks_at;  // what is compared with what
  std::string_view remedy;    // what to do
};

const std::vector<PreflightCode>& PreflightCodes();
bool IsPreflightCode(std::string_view code);
std::string_view CheckOfCode(std::string_view code);  // the code itself when it is not in the list

// The whole of docs/preflight.md.
std::string PreflightDocument();

}  // namespace launch
