// A job while it is being read: the spec so far, what to tell the user, and what a field's text
// means.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/job.h"
#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {

struct JobDraft {
  JobSpec spec;
  std::optional<Offload> strategy_offload;  // that of `strategy: zero2-offload`
  std::vector<std::string> notices;         // one sentence each, for stderr
  std::map<std::string, int> written_at;    // canonical field -> line in the file
  std::string file;                         // shown in errors; "command line" for overrides
  std::string base_dir;                     // absolute; relative paths count from here
  bool on_command_line = false;             // the value being set comes from a flag or `key=value`
  bool nodes_said = false;                  // by the file or the command line
};

// The value of one field with its place, so that every refusal names file, line, column and field.
class FieldValue {
 public:
  // `field` is the canonical dotted name, `written` the key the user typed.
  FieldValue(const YamlNode& node, std::string_view field, std::string_view written,
             const std::string& file)
      : node_(node), field_(field), written_(written), file_(file) {}

  Result<std::string> Text() const;  // any scalar, as written
  Result<std::int64_t> Integer(std::int64_t min, std::int64_t max) const;
  Result<double> Number() const;
  Result<bool> Bool() const;  // true and false only
  Result<Millis> Duration() const;
  Result<std::uint64_t> Bytes(JobDraft& draft) const;          // a bare G adds a notice
  Result<Amount> AmountOf(JobDraft& draft, bool bytes) const;  // "32+", "200GB+"
  Result<std::vector<std::string>> Texts() const;              // a list of scalars, or one scalar
  Result<std::vector<std::string>> Hosts() const;              // hostlist text or a list of them

  Unexpected Bad(std::string message, std::string hint = {}) const;
  Unexpected BadItem(const YamlNode& at, std::string message, std::string hint = {}) const;
  Error Place(Error error) const;  // adds file, line, column and field to an error without a place

  const YamlNode& node() const { return node_; }
  std::string_view field() const { return field_; }
  std::string_view written() const { return written_; }
  const std::string& file() const { return file_; }

 private:
  const YamlNode& node_;
  std::string_view field_;
  std::string_view written_;
  const std::string& file_;
};

// One word of a closed list; anything else names the list and the nearest word.
template <class T>
Result<T> Choice(const FieldValue& value, std::optional<T> (*parse)(std::string_view),
                 std::initializer_list<const char*> words);

// Refusal of a word outside `words`; the untyped half of Choice.
Unexpected NotOneOf(const FieldValue& value, std::string_view text,
                    const std::vector<std::string>& words);

template <class T>
Result<T> Choice(const FieldValue& value, std::optional<T> (*parse)(std::string_view),
                 std::initializer_list<const char*> words) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  if (std::optional<T> parsed = parse(text)) return *parsed;
  return NotOneOf(value, text, std::vector<std::string>(words.begin(), words.end()));
}

bool IsVariableName(std::string_view name);  // of an environment

// "~" and "~/x" by HOME; relative paths against `base`; no symlinks are followed. The result is
// absolute.
std::string AbsolutePath(std::string_view path, const std::string& base);

}  // namespace launch
