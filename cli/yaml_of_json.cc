#include "cli/yaml_of_json.h"

#include "cli/json_values.h"

namespace launch {
namespace {

// Block style throughout; texts are JSON strings, which every YAML reader takes.
void WriteYaml(const OrderedJson& json, std::size_t indent, std::string& out) {
  const std::string pad(indent, ' ');
  const auto is_block = [](const OrderedJson& j) { return j.is_structured() && !j.empty(); };
  const auto write_value = [&](const OrderedJson& value) {
    if (is_block(value)) {
      out += "\n";
      WriteYaml(value, indent + 2, out);
    } else {
      out += " " + value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
    }
  };
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      out += pad + OrderedJson(key).dump() + ":";
      write_value(value);
    }
  } else if (json.is_array()) {
    for (const OrderedJson& value : json) {
      out += pad + "-";
      write_value(value);
    }
  } else {
    out += pad + json.dump() + "\n";
  }
}

}  // namespace

std::string YamlOfJson(const std::string& json) {
  std::string out;
  WriteYaml(OrderedJson::parse(json), 0, out);
  return out;
}

}  // namespace launch
