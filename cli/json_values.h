// The small values that the documents of `-o json` are made of.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace launch {

using OrderedJson = nlohmann::ordered_json;

template <class T>
OrderedJson OrNull(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson Word(std::string_view text);
OrderedJson TextMap(const std::map<std::string, std::string>& map);
OrderedJson NodeNames(const std::vector<NodeId>& nodes);

// "2026-11-21T11:36:38.123Z"; empty for the zero time.
std::string FormatTime(WallTime time);
OrderedJson TimeOrNull(WallTime time);

}  // namespace launch
