#include "common/yaml_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <sstream>

#include "common/unique_fd.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr std::size_t kMaxYamlBytes = 256 * 1024;
constexpr std::size_t kMaxYamlDepth = 32;
constexpr std::size_t kMaxKeys = 1000;
constexpr std::size_t kMaxNodes = 10000;

Unexpected Refuse(const std::string& file, int line, int column, std::string message,
                  std::string hint = {}) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint),
              Where{file, line, column, {}});
}

// Length of the valid UTF-8 sequence at `i`, or 0.
std::size_t Utf8Length(std::string_view s, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(s[k]); };
  const unsigned char lead = byte(i);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || i + length > s.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(i + 1) < 0xA0) return 0;
  if (lead == 0xED && byte(i + 1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(i + 1) < 0x90) return 0;
  if (lead == 0xF4 && byte(i + 1) > 0x8F) return 0;
  return length;
}

// A text file: valid UTF-8 without control characters other than tab, newline, carriage return.
Result<void> CheckText(std::string_view text, const std::string& file) {
  int line = 1;
  int column = 1;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = Utf8Length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      return Refuse(file, line, column, "not UTF-8 text", "is this a job file, or a binary?");
    }
    if (c < 0x20 && c != '\t' && c != '\n' && c != '\r') {
      return Refuse(file, line, column, "a control character (byte " + std::to_string(c) + ")",
                    "is this a job file, or a binary?");
    }
    if (c == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
    i += length;
  }
  return {};
}

// Builds the tree from parser events. The first refusal is kept and the rest ignored: events come
// before aliases are expanded, so a bomb costs no more than its text.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (Enter(mark, "", anchor)) Add(Make(YamlNode::Kind::kNull, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    Stop(mark, "aliases (*name) are not supported", "write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!Enter(mark, tag, anchor)) return;
    YamlNode node = Make(YamlNode::Kind::kScalar, mark);
    node.quoted = tag == "!";
    if (node.quoted) last_quoted_ = mark;
    node.scalar = value;
    Add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    if (Enter(mark, tag, anchor)) Push(Make(YamlNode::Kind::kList, mark));
  }
  void OnSequenceEnd() override { Pop(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    if (Enter(mark, tag, anchor)) Push(Make(YamlNode::Kind::kMap, mark));
  }
  void OnMapEnd() override { Pop(); }
  void OnAnchor(const YAML::Mark& mark, const std::string& /*name*/) override {
    Stop(mark, "anchors (&name) are not supported", "write the value out");
  }

  // Where the last quoted value, or block of lines, begins.
  const std::optional<YAML::Mark>& LastQuoted() const { return last_quoted_; }

  Result<YamlNode> Take() {
    if (error_) return Unexpected(std::move(*error_));
    if (!root_) return Refuse(file_, 1, 1, "the file is empty");
    return std::move(*root_);
  }

 private:
  struct Open {
    YamlNode node;
    std::optional<YamlNode> key;  // of a map: read, its value not yet
  };

  static YamlNode Make(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void Stop(const YAML::Mark& mark, std::string message, std::string hint = {}) {
    if (error_) return;
    error_ =
        Refuse(file_, mark.line + 1, mark.column + 1, std::move(message), std::move(hint)).value();
  }

  // False when the event must be ignored.
  bool Enter(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (error_) return false;
    if (anchor != 0) {
      Stop(mark, "anchors (&name) are not supported", "write the value out");
    } else if (!tag.empty() && tag != "?" && tag != "!") {
      Stop(mark, "tags (" + tag + ") are not supported", "write the plain value");
    } else if (++nodes_ > kMaxNodes) {
      Stop(mark, "more than " + std::to_string(kMaxNodes) + " values");
    } else if (stack_.size() >= kMaxYamlDepth) {
      Stop(mark, "nested deeper than " + std::to_string(kMaxYamlDepth) + " levels");
    }
    return !error_;
  }

  void Add(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& open = stack_.back();
    if (open.node.kind == YamlNode::Kind::kList) {
      open.node.items.push_back(std::move(node));
      return;
    }
    if (open.key) {
      open.node.entries.push_back({std::move(*open.key), std::move(node)});
      open.key.reset();
      return;
    }
    const YAML::Mark mark = [&] {
      YAML::Mark m;
      m.line = node.line - 1;
      m.column = node.column - 1;
      return m;
    }();
    if (node.kind != YamlNode::Kind::kScalar) return Stop(mark, "a key must be a plain word");
    if (node.scalar == "<<") {
      return Stop(mark, "merge keys (<<) are not supported", "write the keys out");
    }
    if (const YamlNode* first = open.node.Find(node.scalar)) {
      return Stop(mark,
                  "'" + node.scalar + "' is given twice (first on line " +
                      std::to_string(first->line) + ")",
                  "keep one of the two");
    }
    if (open.node.entries.size() >= kMaxKeys) {
      return Stop(mark, "more than " + std::to_string(kMaxKeys) + " keys in one map");
    }
    open.key = std::move(node);
  }

  void Push(YamlNode node) { stack_.push_back({std::move(node), std::nullopt}); }

  void Pop() {
    if (error_ || stack_.empty()) return;
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    Add(std::move(node));
  }

  const std::string& file_;
  std::vector<Open> stack_;
  std::optional<YamlNode> root_;
  std::optional<Error> error_;
  std::optional<YAML::Mark> last_quoted_;
  std::size_t nodes_ = 0;
};

// The text from its line `line` on, counted from 0 as marks of yaml-cpp count.
std::string_view FromLine(std::string_view text, int line) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (; line > 0 && !text.empty(); --line)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

// yaml-cpp takes the end of the text behind a line break for the end of a quote: all lines after a
// forgotten one would be part of its value.
std::optional<Error> UnclosedQuote(std::string_view text, const YAML::Mark& opening,
                                   const std::string& file) {
  text = FromLine(text, opening.line);
  const auto at = static_cast<std::size_t>(opening.column);
  if (at >= text.size() || (text[at] != '"' && text[at] != '\'')) return std::nullopt;
  const char quote = text[at];
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"')
      ++i;
    else if (text[i] == quote && quote == '\'' && i + 1 < text.size() && text[i + 1] == quote)
      ++i;
    else if (text[i] == quote)
      return std::nullopt;
  }
  return Refuse(file, opening.line + 1, opening.column + 1,
                std::string("the quote that opens here (") + quote + ") is not closed",
                "close it at the end of its value")
      .value();
}

// The parser names its own state where it stands; the mistake is mostly one of two, on that line or
// the one before it: a tab, or a key without a colon and a blank behind it.
std::optional<Error> UsualMistake(std::string_view text, int at, const std::string& file) {
  std::vector<std::string_view> lines;
  for (std::size_t from = 0; from <= text.size() && static_cast<int>(lines.size()) <= at;) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  std::size_t below = 0;  // indentation of the line below
  for (int line = static_cast<int>(lines.size()) - 1; line >= 0 && line >= at - 1; --line) {
    const std::string_view one = lines[static_cast<std::size_t>(line)];
    const std::size_t first = std::min(one.find_first_not_of(" \t"), one.size());
    if (below > 0 && first > below) return std::nullopt;  // a text, which `below` ends badly
    below = first;
    if (const std::size_t tab = one.find('\t'); tab < first) {
      return Refuse(file, line + 1, static_cast<int>(tab) + 1, "a tab stands in the indentation",
                    "indent with spaces")
          .value();
    }
    const std::string_view word = one.substr(first);
    const bool plain = !word.empty() && (std::isalpha(static_cast<unsigned char>(word[0])) != 0);
    const std::size_t colon = word.find(':');
    const bool key =
        colon != std::string_view::npos && (colon + 1 == word.size() || word[colon + 1] == ' ');
    if (plain && !key && word.find(": ") == std::string_view::npos) {
      return Refuse(file, line + 1, static_cast<int>(first) + 1,
                    "`" + std::string(word.substr(0, 40)) + "` is no field and its value",
                    "write `name: value`, with a colon and a blank behind it")
          .value();
    }
  }
  return std::nullopt;
}

// What the parser names is its own state; this says what was written, and what to write instead.
struct Explained {
  std::string_view parser_says;
  std::string_view says;
  std::string_view hint;
};
constexpr std::string_view kQuoteIt = "put quotes around the value";

Error Unreadable(const YAML::Exception& e, std::string_view text, const std::string& file) {
  constexpr std::string_view kAsText =
      "put quotes around the whole value, or write `|` behind the name and the value on the next "
      "line, indented";
  const std::array<Explained, 12> explained = {{
      {YAML::ErrorMsg::MAP_VALUE, "`: ` stands within a value, and would begin another one",
       kAsText},
      {YAML::ErrorMsg::END_OF_SEQ_FLOW,
       "a list that begins with `[` is not closed, or its items are not apart by commas",
       "close it with `]`; a value that only begins so needs quotes"},
      {YAML::ErrorMsg::END_OF_MAP_FLOW,
       "a map that begins with `{` is not closed, or its values are not apart by commas",
       "close it with `}`; a value that only begins so needs quotes"},
      {YAML::ErrorMsg::FLOW_END, "nothing is open that this would close",
       "take it out, or put quotes around the value"},
      {YAML::ErrorMsg::BLOCK_ENTRY, "a list cannot begin here",
       "write each `- item` on a line of its own, below the name"},
      {YAML::ErrorMsg::CHAR_IN_BLOCK, "a text begins on the line below its `|` or `>`",
       "write it on the next line, indented"},
      {YAML::ErrorMsg::UNKNOWN_TOKEN, "no value begins so", kQuoteIt},
      {YAML::ErrorMsg::CHAR_IN_ANCHOR, "no value begins so", kQuoteIt},
      {YAML::ErrorMsg::CHAR_IN_ALIAS, "no value begins so", kQuoteIt},
      {YAML::ErrorMsg::ANCHOR_NOT_FOUND, "no value begins so", kQuoteIt},
      {YAML::ErrorMsg::ALIAS_NOT_FOUND, "no value begins so", kQuoteIt},
      {YAML::ErrorMsg::END_OF_MAP, "text stands behind a value that ends before it", kAsText},
  }};
  int column = e.mark.column + 1;
  const auto refuse = [&](std::string_view message, std::string_view hint) {
    return Refuse(file, e.mark.line + 1, column, std::string(message), std::string(hint)).value();
  };
  // yaml-cpp writes the character, or the name of the anchor, behind the text.
  if (e.msg.starts_with(YAML::ErrorMsg::INVALID_ESCAPE)) {
    column = std::max(1, column - 2);  // the mark is behind it
    return refuse("within double quotes `\\` begins an escape, and this is none",
                  "write `\\\\`, or single quotes");
  }
  if (e.msg.starts_with(YAML::ErrorMsg::UNKNOWN_ANCHOR))
    return refuse("a value that begins with `*` stands for an anchor, and there is none", kQuoteIt);
  // What stands in front of the mark on its line.
  const std::string_view before =
      FromLine(text, e.mark.line).substr(0, static_cast<std::size_t>(std::max(0, e.mark.column)));
  const std::size_t first = before.find_first_not_of(' ');
  const bool begins_line = e.msg == YAML::ErrorMsg::END_OF_MAP && first == before.npos;
  // "  gpus: 2" below "run: python t.py".
  const bool is_name = e.msg == YAML::ErrorMsg::MAP_VALUE && e.mark.line > 0 &&
                       first != before.npos && before.find(' ', first) == before.npos;
  if (begins_line || is_name)
    return refuse("this line is indented unlike those around it",
                  "let the names of one map begin in the same column");
  for (const Explained& one : explained)
    if (e.msg == one.parser_says) return refuse(one.says, one.hint);
  return refuse("not valid YAML: " + e.msg, "");
}

Result<YamlNode> ParseChecked(std::string_view text, const std::string& file) {
  TreeBuilder builder(file);
  const auto unclosed = [&] {
    const auto& opening = builder.LastQuoted();
    return opening ? UnclosedQuote(text, *opening, file) : std::nullopt;
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(builder)) {
      TreeBuilder second(file);
      if (parser.HandleNextDocument(second)) {
        return Refuse(file, 0, 0, "several documents (---) in one file", "keep one document");
      }
    }
  } catch (const YAML::Exception& e) {
    if (auto error = unclosed()) return Unexpected(std::move(*error));
    if (e.msg == YAML::ErrorMsg::EOF_IN_SCALAR && !text.ends_with('\n'))
      return ParseChecked(std::string(text) + '\n', file);
    if (!e.msg.starts_with(YAML::ErrorMsg::INVALID_ESCAPE))
      if (auto usual = UsualMistake(text, e.mark.line, file)) return Unexpected(std::move(*usual));
    return Unexpected(Unreadable(e, text, file));
  }
  if (auto error = unclosed()) return Unexpected(std::move(*error));
  return builder.Take();
}

std::string_view KindName(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "a single value";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
  }
  return "?";
}

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.scalar == key) return &value;
  }
  return nullptr;
}

Result<YamlNode> ParseYaml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxYamlBytes) {
    return Refuse(file, 0, 0, "larger than 256 KiB", "is this a job file?");
  }
  LAUNCH_RETURN_IF_ERROR(CheckText(text, file));
  const bool blank = std::all_of(text.begin(), text.end(), [](char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
  });
  if (blank) return Refuse(file, 1, 1, "the file is empty");
  LAUNCH_ASSIGN_OR_RETURN(YamlNode root, ParseChecked(text, file));
  if (root.kind == YamlNode::Kind::kNull) return Refuse(file, 1, 1, "the file is empty");
  return root;
}

Result<std::string> ReadYamlText(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return FailErrno("open " + path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FailErrno("stat " + path, errno);
  if (S_ISDIR(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, path + " is a directory", "name a YAML file");
  }
  std::string text;
  char buffer[16384];
  while (text.size() <= kMaxYamlBytes) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno("read " + path, errno);
    if (n == 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

Result<YamlNode> ReadYamlFile(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string text, ReadYamlText(path));
  return ParseYaml(text, path);
}

YamlMap::YamlMap(const YamlNode& node, std::string file, std::string path)
    : node_(node), file_(std::move(file)), path_(std::move(path)) {}

Unexpected YamlMap::Bad(const YamlNode& at, std::string_view key, std::string message,
                        std::string hint) const {
  std::string field = path_;
  if (!key.empty()) field += (field.empty() ? "" : ".") + std::string(key);
  return Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint),
              Where{file_, at.line, at.column, std::move(field)});
}

Result<void> YamlMap::AllowOnly(const std::vector<std::string>& known) const {
  if (node_.kind != YamlNode::Kind::kMap) {
    return Bad(node_, "", "expected a map of keys, found " + std::string(KindName(node_)));
  }
  for (const auto& [key, value] : node_.entries) {
    if (std::find(known.begin(), known.end(), key.scalar) != known.end()) continue;
    const std::string nearest = NearestName(key.scalar, known);
    return Bad(key, "", "unknown key '" + key.scalar + "'",
               nearest.empty() ? "" : "did you mean '" + nearest + "'?");
  }
  return {};
}

const YamlNode* YamlMap::Get(std::string_view key) const { return node_.Find(key); }

Result<std::optional<std::string>> YamlMap::String(std::string_view key) const {
  const YamlNode* value = Get(key);
  if (value == nullptr || value->kind == YamlNode::Kind::kNull) return std::nullopt;
  if (value->kind != YamlNode::Kind::kScalar) {
    return Bad(*value, key, "expected a single value, found " + std::string(KindName(*value)));
  }
  return value->scalar;
}

Result<std::optional<std::int64_t>> YamlMap::Int(std::string_view key) const {
  LAUNCH_ASSIGN_OR_RETURN(const std::optional<std::string> text, String(key));
  if (!text) return std::nullopt;
  const auto number = ParseInt(*text);
  if (!number) return Bad(*Get(key), key, "'" + *text + "' is not a whole number");
  return number;
}

Result<std::optional<double>> YamlMap::Double(std::string_view key) const {
  LAUNCH_ASSIGN_OR_RETURN(const std::optional<std::string> text, String(key));
  if (!text) return std::nullopt;
  const auto number = ParseDouble(*text);
  if (!number) return Bad(*Get(key), key, "'" + *text + "' is not a number");
  return number;
}

Result<std::optional<bool>> YamlMap::Bool(std::string_view key) const {
  LAUNCH_ASSIGN_OR_RETURN(const std::optional<std::string> text, String(key));
  if (!text) return std::nullopt;
  if (*text == "true") return true;
  if (*text == "false") return false;
  return Bad(*Get(key), key, "'" + *text + "' is not true or false",
             "yes, no, on and off mean different things to different readers");
}

Result<std::vector<std::string>> YamlMap::StringList(std::string_view key) const {
  const YamlNode* value = Get(key);
  std::vector<std::string> list;
  if (value == nullptr || value->kind == YamlNode::Kind::kNull) return list;
  if (value->kind == YamlNode::Kind::kScalar) {
    list.push_back(value->scalar);
    return list;
  }
  if (value->kind != YamlNode::Kind::kList) {
    return Bad(*value, key, "expected a list, found " + std::string(KindName(*value)));
  }
  for (const YamlNode& item : value->items) {
    if (item.kind != YamlNode::Kind::kScalar) {
      return Bad(item, key,
                 "expected a single value in the list, found " + std::string(KindName(item)));
    }
    list.push_back(item.scalar);
  }
  return list;
}

}  // namespace launch
