// Numbers in JSON of others. get<int>() of nlohmann casts whatever number stands there.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/bounded_number.h"

namespace launch {

// The whole number from `low` to `high` (below 2^53), written as 3 or as 3.0; absent for all else.
inline std::optional<std::int64_t> WholeNumberOf(const nlohmann::json& value, std::int64_t low,
                                                 std::int64_t high) {
  if (!value.is_number()) return std::nullopt;
  return WholeIn(value.get<double>(), low, high);
}

// The same for the member `key` of an object; absent also where there is no such member.
inline std::optional<std::int64_t> WholeNumberIn(const nlohmann::json& object, const char* key,
                                                 std::int64_t low, std::int64_t high) {
  const auto found = object.find(key);
  return found == object.end() ? std::nullopt : WholeNumberOf(*found, low, high);
}

}  // namespace launch
