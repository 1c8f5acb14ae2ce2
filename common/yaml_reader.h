// Strict YAML: a tree of maps, lists and raw scalars with line and column; the one owner of
// yaml-cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"

namespace launch {

// A node of the document. Scalars keep their raw text: "12:00:00", "on" and "1e5" stay as written,
// so base-60 and boolean traps cannot happen; the reader of a field decides what it means.
struct YamlEntry;
struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  bool quoted = false;  // scalar in quotes or as a block
  std::string scalar;
  std::vector<YamlNode> items;     // list
  std::vector<YamlEntry> entries;  // map, in file order; keys are scalars
  int line = 0;                    // from 1
  int column = 0;

  const YamlNode* Find(std::string_view key) const;  // null when absent or not a map
};
struct YamlEntry {
  YamlNode key;
  YamlNode value;
};

// Limits: 256 KiB, depth 32, 1,000 keys a map, 10,000 nodes; no anchors, aliases,
// merge keys, tags, several documents, duplicate keys, NULs or invalid UTF-8. Each refusal has
// Where{file, line, column}. An empty document is an error here.
Result<YamlNode> ParseYaml(std::string_view text, const std::string& file);
// Reads a file, or a pipe until its end; more than ParseYaml takes is cut off after that.
Result<std::string> ReadYamlText(const std::string& path);
Result<YamlNode> ReadYamlFile(const std::string& path);  // stats the size first

// Typed access with errors that name file, line, column and dotted field.
class YamlMap {
 public:
  YamlMap(const YamlNode& node, std::string file, std::string path);
  // Refuses keys that are not in `known`, with the nearest name as hint.
  Result<void> AllowOnly(const std::vector<std::string>& known) const;
  const YamlNode* Get(std::string_view key) const;
  Result<std::optional<std::string>> String(std::string_view key) const;
  Result<std::optional<std::int64_t>> Int(std::string_view key) const;
  Result<std::optional<double>> Double(std::string_view key) const;
  Result<std::optional<bool>> Bool(std::string_view key) const;             // true and false only
  Result<std::vector<std::string>> StringList(std::string_view key) const;  // list, or one scalar
  Unexpected Bad(const YamlNode& at, std::string_view key, std::string message,
                 std::string hint = {}) const;
  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }
  const YamlNode& node() const { return node_; }

 private:
  const YamlNode& node_;
  std::string file_;
  std::string path_;
};

}  // namespace launch
