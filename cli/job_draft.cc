#include "cli/job_draft.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "common/hostlist.h"
#include "common/text.h"

namespace launch {
namespace {

std::string KindName(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "`" + node.scalar + "`";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
  }
  return "nothing";
}

}  // namespace

Unexpected FieldValue::BadItem(const YamlNode& at, std::string message, std::string hint) const {
  return Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint),
              Where{file_, at.line, at.column, std::string(written_)});
}

Unexpected FieldValue::Bad(std::string message, std::string hint) const {
  return BadItem(node_, std::move(message), std::move(hint));
}

Error FieldValue::Place(Error error) const {
  if (!error.where) {
    error.where = Where{file_, node_.line, node_.column, std::string(written_)};
  }
  return error;
}

Result<std::string> FieldValue::Text() const {
  if (node_.kind != YamlNode::Kind::kScalar)
    return Bad("needs one value, found " + KindName(node_));
  return node_.scalar;
}

Result<std::int64_t> FieldValue::Integer(std::int64_t min, std::int64_t max) const {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, Text());
  const std::optional<std::int64_t> number = ParseInt(text);
  if (!number) return Bad("needs a whole number, found `" + text + "`");
  if (*number < min || *number > max)
    return Bad("`" + text + "` is outside " + std::to_string(min) + " to " + std::to_string(max));
  return *number;
}

Result<double> FieldValue::Number() const {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, Text());
  const std::optional<double> number = ParseDouble(text);
  if (!number) return Bad("needs a number, found `" + text + "`");
  return *number;
}

Result<bool> FieldValue::Bool() const {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, Text());
  if (text == "true") return true;
  if (text == "false") return false;
  return Bad("needs true or false, found `" + text + "`",
             "yes, no, on and off mean different things to different YAML readers");
}

Result<Millis> FieldValue::Duration() const {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, Text());
  Result<Millis> duration = ParseDuration(text);
  if (!duration) return Unexpected(Place(duration.error()));
  return *duration;
}

namespace {

Result<std::uint64_t> SizeOf(const FieldValue& value, const std::string& text, JobDraft& draft) {
  const Result<ByteSize> size = ParseBytes(text);
  if (!size) return Unexpected(value.Place(size.error()));
  if (size->bare_suffix)
    draft.notices.push_back(std::string(value.written()) + ": " + text +
                            " is read in binary units (" + FormatBytes(size->bytes) +
                            "); write GB or GiB to be exact");
  return size->bytes;
}

}  // namespace

Result<std::uint64_t> FieldValue::Bytes(JobDraft& draft) const {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, Text());
  return SizeOf(*this, text, draft);
}

Result<Amount> FieldValue::AmountOf(JobDraft& draft, bool bytes) const {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, Text());
  Amount amount;
  if (!text.empty() && text.back() == '+') {
    amount.at_least = true;
    text.pop_back();
  }
  if (bytes) {
    LAUNCH_ASSIGN_OR_RETURN(amount.value, SizeOf(*this, text, draft));
    return amount;
  }
  const std::optional<std::int64_t> number = ParseInt(text);
  if (!number || *number < 1)
    return Bad("needs a whole number such as 32 or 32+, found `" + node_.scalar + "`");
  amount.value = static_cast<std::uint64_t>(*number);
  return amount;
}

Result<std::vector<std::string>> FieldValue::Texts() const {
  std::vector<std::string> texts;
  if (node_.kind == YamlNode::Kind::kScalar) return std::vector<std::string>{node_.scalar};
  if (node_.kind != YamlNode::Kind::kList)
    return Bad("needs a list or one value, found " + KindName(node_));
  for (const YamlNode& item : node_.items) {
    if (item.kind != YamlNode::Kind::kScalar)
      return BadItem(item, "needs plain values in its list, found " + KindName(item));
    texts.push_back(item.scalar);
  }
  return texts;
}

Result<std::vector<std::string>> FieldValue::Hosts() const {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> texts, Texts());
  std::vector<std::string> hosts;
  for (const std::string& text : texts) {
    Result<std::vector<std::string>> some = ExpandHostlist(text);
    if (!some) return Unexpected(Place(some.error()));
    hosts.insert(hosts.end(), some->begin(), some->end());
    if (hosts.size() > 10000) return Bad("names more than 10,000 nodes");
  }
  return hosts;
}

bool IsVariableName(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

Unexpected NotOneOf(const FieldValue& value, std::string_view text,
                    const std::vector<std::string>& words) {
  const std::string nearest = NearestName(text, words);
  return value.Bad("`" + std::string(text) + "` is not one of " + Joined(words, ", "),
                   nearest.empty() ? "" : "did you mean " + nearest + "?");
}

std::string AbsolutePath(std::string_view path, const std::string& base) {
  std::filesystem::path result;
  const char* home = std::getenv("HOME");
  if (home != nullptr && (path == "~" || path.starts_with("~/")))
    result = std::filesystem::path(home) / (path.size() > 2 ? path.substr(2) : "");
  else
    result = std::filesystem::path(base) / path;
  std::string text = result.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace launch
