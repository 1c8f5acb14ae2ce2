// Counts in text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace launch {

// "1 rank", "2 ranks".
inline std::string WithPlural(std::int64_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace launch
