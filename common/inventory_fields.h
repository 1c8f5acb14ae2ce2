// Typed reading of the maps of an inventory file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/inventory.h"
#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {

// A map with typed access to the fields of an inventory; every getter leaves an absent field alone.
class Fields {
 public:
  Fields(const YamlNode& node, const std::string& file, std::string path)
      : map_(node, file, std::move(path)) {}

  Result<void> Only(const std::vector<std::string>& known) const { return map_.AllowOnly(known); }
  const YamlMap& map() const { return map_; }
  const YamlNode* Get(std::string_view key) const { return map_.Get(key); }

  Result<void> Text(std::string_view key, std::string& out) const {
    LAUNCH_ASSIGN_OR_RETURN(const auto text, map_.String(key));
    if (text) out = *text;
    return {};
  }
  Result<void> Text(std::string_view key, std::optional<std::string>& out) const {
    LAUNCH_ASSIGN_OR_RETURN(auto text, map_.String(key));
    if (text) out = std::move(*text);
    return {};
  }
  Result<void> Bool(std::string_view key, bool& out) const {
    LAUNCH_ASSIGN_OR_RETURN(const auto value, map_.Bool(key));
    if (value) out = *value;
    return {};
  }
  Result<void> Bool(std::string_view key, std::optional<bool>& out) const {
    LAUNCH_ASSIGN_OR_RETURN(const auto value, map_.Bool(key));
    if (value) out = *value;
    return {};
  }
  template <class Number>
  Result<void> Int(std::string_view key, Number& out) const {
    LAUNCH_ASSIGN_OR_RETURN(const auto value, map_.Int(key));
    if (!value) return {};
    if (*value < 0) return map_.Bad(*Get(key), key, "is below 0");
    if constexpr (sizeof(Number) <= sizeof(std::int32_t)) {
      if (*value > INT32_MAX) return map_.Bad(*Get(key), key, "is too large");
    }
    out = static_cast<Number>(*value);
    return {};
  }
  template <class Number>
  Result<void> Int(std::string_view key, std::optional<Number>& out) const {
    if (Get(key) == nullptr) return {};
    Number value{};
    LAUNCH_RETURN_IF_ERROR(Int(key, value));
    out = value;
    return {};
  }
  Result<void> Bytes(std::string_view key, std::uint64_t& out) const {
    LAUNCH_ASSIGN_OR_RETURN(const auto text, map_.String(key));
    if (!text) return {};
    const auto size = ParseBytes(*text);
    if (!size) return map_.Bad(*Get(key), key, size.error().message, size.error().hint);
    out = size->bytes;
    return {};
  }
  Result<void> Bytes(std::string_view key, std::optional<std::uint64_t>& out) const {
    if (Get(key) == nullptr) return {};
    std::uint64_t value = 0;
    LAUNCH_RETURN_IF_ERROR(Bytes(key, value));
    out = value;
    return {};
  }
  Result<void> Version(std::string_view key, std::optional<CudaVersion>& out) const {
    LAUNCH_ASSIGN_OR_RETURN(const auto text, map_.String(key));
    if (!text) return {};
    out = ParseVersionPair(*text);
    if (!out) return map_.Bad(*Get(key), key, "'" + *text + "' is not a version", "e.g. \"12.8\"");
    return {};
  }
  template <class Value, class Parse>
  Result<void> Word(std::string_view key, Value& out, Parse parse) const {
    LAUNCH_ASSIGN_OR_RETURN(const auto text, map_.String(key));
    if (!text) return {};
    const auto value = parse(*text);
    if (!value)
      return map_.Bad(*Get(key), key, "'" + *text + "' is not a value of " + std::string(key));
    out = *value;
    return {};
  }
  Result<void> Map(std::string_view key, std::map<std::string, std::string>& out) const {
    const YamlNode* node = Get(key);
    if (node == nullptr || node->kind == YamlNode::Kind::kNull) return {};
    if (node->kind != YamlNode::Kind::kMap) return map_.Bad(*node, key, "expected a map");
    for (const auto& [name, value] : node->entries) {
      if (value.kind == YamlNode::Kind::kList || value.kind == YamlNode::Kind::kMap) {
        return map_.Bad(value, key, "expected a single value for " + name.scalar);
      }
      out[name.scalar] = value.scalar;
    }
    return {};
  }
  // Calls read(Fields of the item, item) for each entry of a list.
  template <class Read>
  Result<void> Each(std::string_view key, Read read) const {
    const YamlNode* node = Get(key);
    if (node == nullptr || node->kind == YamlNode::Kind::kNull) return {};
    if (node->kind != YamlNode::Kind::kList) return map_.Bad(*node, key, "expected a list");
    for (const YamlNode& item : node->items) {
      LAUNCH_RETURN_IF_ERROR(read(Fields(item, map_.file(), Path(key))));
    }
    return {};
  }
  template <class Read>
  Result<void> Inside(std::string_view key, Read read) const {
    const YamlNode* node = Get(key);
    if (node == nullptr || node->kind == YamlNode::Kind::kNull) return {};
    return read(Fields(*node, map_.file(), Path(key)));
  }

 private:
  std::string Path(std::string_view key) const {
    return map_.path() + (map_.path().empty() ? "" : ".") + std::string(key);
  }
  YamlMap map_;
};

}  // namespace launch
