#include "common/ids.h"

#include <algorithm>

namespace launch {

std::string ToString(const Key& key) {
  return std::to_string(key.job.value) + "." + std::to_string(key.attempt.value);
}

bool IsValidName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 63 && name.front() != '-' && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

}  // namespace launch
