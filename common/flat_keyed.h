// The kernel's "flat keyed" files (Documentation/admin-guide/cgroup-v2.rst): lines of "name N".
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace launch {

// The number behind a name; absent: there is none.
inline std::optional<std::uint64_t> FlatKeyed(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  std::string key;
  for (std::uint64_t value = 0; lines >> key >> value;)
    if (key == name) return value;
  return std::nullopt;
}

}  // namespace launch
