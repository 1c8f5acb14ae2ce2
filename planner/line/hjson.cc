#include "planner/line/hjson.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace launch {
namespace {

constexpr int kMostLevels = 64;
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool IsNumber(std::string_view text) {
  const auto digits = [&] {
    const std::size_t all = text.size();
    while (!text.empty() && IsDigit(text[0])) text.remove_prefix(1);
    return all - text.size();
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool zero = text.starts_with('0');
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  return text.empty();
}

std::string_view Stripped(std::string_view text) {
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string InQuotes(std::string_view text) {
  using nlohmann::json;
  return json(std::string(text)).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Writes JSON while it reads; the first problem ends it. After a problem every function returns
// false and nothing more is read.
class HjsonReader {
 public:
  explicit HjsonReader(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  Result<std::string> Read() {
    const bool done = Skip() && Root() && Skip() &&
                      (at_ == text_.size() || Refuse("something stands behind the last brace"));
    if (!done) return Unexpected(error_);
    return std::move(json_);
  }

 private:
  bool Refuse(const std::string& what) {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const auto start = before.rfind('\n');
    const std::size_t column = before.size() - (start == before.npos ? 0 : start + 1) + 1;
    error_ =
        Error{ErrorCode::kInvalidArgument,
              "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what,
              {}};
    return false;
  }

  char Here(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool AtEnd() const { return at_ >= text_.size(); }

  // Over blanks and comments.
  bool Skip() {
    while (!AtEnd()) {
      if (kBlanks.find(Here()) != kBlanks.npos) {
        ++at_;
      } else if (Here() == '#' || (Here() == '/' && Here(1) == '/')) {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
      } else if (Here() == '/' && Here(1) == '*') {
        const auto end = text_.find("*/", at_ + 2);
        if (end == text_.npos) return Refuse("this comment has no end");
        at_ = end + 2;
      } else {
        break;
      }
    }
    return true;
  }

  bool Root() {
    if (AtEnd()) return Refuse("there is nothing in it");
    if (Here() == '[' || Here() == '{') return Value(0);
    return Members(0, /*braces=*/false);
  }

  bool Value(int level) {
    if (level > kMostLevels) return Refuse("is nested too deeply");
    switch (Here()) {
      case '"':
      case '\'':
        return QuotedText();
      case '{':
        ++at_;
        return Members(level, /*braces=*/true);
      case '[':
        ++at_;
        return Elements(level);
      default:
        return BareValue();
    }
  }

  bool Members(int level, bool braces) {
    json_ += '{';
    if (!Skip()) return false;
    for (bool first = true; !Ends(braces, '}'); first = false) {
      if (!first) json_ += ',';
      if (!Key() || !Skip()) return false;
      if (Here() != ':') return Refuse("a ':' is missing behind the key");
      ++at_;
      json_ += ':';
      if (!Skip() || !Value(level + 1) || !SkipComma()) return false;
    }
    if (braces && AtEnd()) return Refuse("a '}' is missing");
    if (braces) ++at_;
    json_ += '}';
    return true;
  }

  bool Elements(int level) {
    json_ += '[';
    if (!Skip()) return false;
    for (bool first = true; !Ends(true, ']'); first = false) {
      if (!first) json_ += ',';
      if (!Value(level + 1) || !SkipComma()) return false;
    }
    if (AtEnd()) return Refuse("a ']' is missing");
    ++at_;
    json_ += ']';
    return true;
  }

  bool Ends(bool bracket, char close) const { return AtEnd() || (bracket && Here() == close); }

  // One comma at most; a new line does as well.
  bool SkipComma() {
    if (!Skip()) return false;
    if (Here() != ',') return true;
    ++at_;
    return Skip();
  }

  bool Key() {
    if (Here() == '"' || Here() == '\'') return QuotedText();
    const auto end = text_.find_first_of(":{}[],", at_);
    if (end == text_.npos || text_[end] != ':') return Refuse("a key is expected here");
    const std::string_view key = Stripped(text_.substr(at_, end - at_));
    if (key.empty()) return Refuse("a key is expected before the ':'");
    if (key.find_first_of(kBlanks) != key.npos)
      return Refuse("a key with blanks inside needs quotes");
    json_ += InQuotes(key);
    at_ = end;
    return true;
  }

  // Escapes stay as they are, but for those that JSON does not know.
  bool QuotedText() {
    const char quote = Here();
    if (quote == '\'' && text_.substr(at_, 3) == "'''")
      return Refuse("a text in ''' is not read; write it in one line between quotes");
    ++at_;
    json_ += '"';
    for (; Here() != quote; ++at_) {
      if (AtEnd()) return Refuse("this text has no closing quote");
      if (static_cast<unsigned char>(Here()) < 0x20)
        return Refuse("a text ends before its closing quote");
      if (Here() == '\\') {
        ++at_;
        if (Here() != '\'') json_ += '\\';
        if (AtEnd() || static_cast<unsigned char>(Here()) < 0x20)
          return Refuse("a text ends before its closing quote");
      } else if (Here() == '"') {
        json_ += '\\';
      }
      json_ += Here();
    }
    ++at_;
    json_ += '"';
    return true;
  }

  // A number or a word of JSON ends at a comma, a bracket or a comment; any other text goes on to
  // the end of its line, with whatever stands there.
  bool BareValue() {
    constexpr std::string_view kPunctuation = "{}[],:";
    if (AtEnd() || kPunctuation.find(Here()) != kPunctuation.npos)
      return Refuse("a value is expected here");
    const std::size_t line_end = std::min(text_.find_first_of("\r\n", at_), text_.size());
    const std::string_view line = text_.substr(at_, line_end - at_);
    const std::string_view word = Stripped(line.substr(0, EndOfWord(line)));
    const bool known = word == "null" || word == "true" || word == "false" || IsNumber(word);
    json_ += known ? std::string(word) : InQuotes(Stripped(line));
    at_ = known ? at_ + EndOfWord(line) : line_end;
    return true;
  }

  static std::size_t EndOfWord(std::string_view line) {
    const std::size_t end = std::min(line.find_first_of(",}]#"), line.size());
    const std::string_view word = line.substr(0, end);
    return std::min({end, word.find("//"), word.find("/*")});
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::string json_;
  Error error_;
};

}  // namespace

Result<std::string> JsonOfHjson(std::string_view text) { return HjsonReader(text).Read(); }

}  // namespace launch
