#include "cli/json_values.h"

#include <cstdint>
#include <cstdio>
#include <ctime>

namespace launch {

OrderedJson Word(std::string_view text) { return std::string(text); }

OrderedJson TextMap(const std::map<std::string, std::string>& map) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, value] : map) object[name] = value;
  return object;
}

OrderedJson NodeNames(const std::vector<NodeId>& nodes) {
  OrderedJson list = OrderedJson::array();
  for (const NodeId& node : nodes) list.push_back(node.value);
  return list;
}

std::string FormatTime(WallTime time) {
  const std::int64_t ms = ToMs(time);
  if (ms == 0) return {};
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(ms % 1000));
  return text;
}

OrderedJson TimeOrNull(WallTime time) {
  const std::string text = FormatTime(time);
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

}  // namespace launch
