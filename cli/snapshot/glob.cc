#include "cli/snapshot/glob.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

namespace launch {
namespace {

using Byte = unsigned char;

// Whether an ASCII byte is in a POSIX class; absent = there is no such class.
std::optional<bool> InClass(std::string_view name, Byte c) {
  using Is = int (*)(int);
  static constexpr std::array<std::pair<std::string_view, Is>, 12> kClasses = {{
      {"alnum", std::isalnum},
      {"alpha", std::isalpha},
      {"blank", std::isblank},
      {"cntrl", std::iscntrl},
      {"digit", std::isdigit},
      {"graph", std::isgraph},
      {"lower", std::islower},
      {"print", std::isprint},
      {"punct", std::ispunct},
      {"space", std::isspace},
      {"upper", std::isupper},
      {"xdigit", std::isxdigit},
  }};
  const auto* const found =
      std::ranges::find(kClasses, name, &std::pair<std::string_view, Is>::first);
  if (found == kClasses.end()) return std::nullopt;
  return c < 0x80 && found->second(c) != 0;
}

// The inside of `[...]`, one element at a time.
struct Brackets {
  std::string_view pattern;
  Byte c;
  std::size_t at = 1;
  int previous = -1;  // start of a range, if a '-' follows
  bool found = false;

  void One(Byte one) {
    found |= c == one;
    previous = one;
    ++at;
  }

  // False where the pattern ends too early or names no class.
  bool Element() {
    const auto one = static_cast<Byte>(pattern[at]);
    const char next = at + 1 < pattern.size() ? pattern[at + 1] : '\0';
    if (one == '\\') {
      if (++at == pattern.size()) return false;
      One(static_cast<Byte>(pattern[at]));
      return true;
    }
    if (one == '-' && previous > 0 && next != '\0' && next != ']') return Range();
    if (one == '[' && next == ':') return Class();
    One(one);
    return true;
  }

  bool Range() {
    if (pattern[++at] == '\\' && ++at == pattern.size()) return false;
    found |= previous <= c && c <= static_cast<Byte>(pattern[at]);
    previous = -1;
    ++at;
    return true;
  }

  bool Class() {
    const std::size_t close = pattern.find(']', at + 2);
    if (close == std::string_view::npos) return false;
    std::string_view name = pattern.substr(at + 2, close - at - 2);
    if (!name.ends_with(':')) {  // `[[:x]`: a set of these bytes
      One('[');
      return true;
    }
    name.remove_suffix(1);
    const std::optional<bool> in = InClass(name, c);
    if (!in) return false;
    found |= *in;
    previous = -1;
    at = close + 1;
    return true;
  }
};

// How long the brackets at the start of `pattern` are if they stand for `c`; else 0.
std::size_t BracketsLength(std::string_view pattern, char c) {
  Brackets brackets{.pattern = pattern, .c = static_cast<Byte>(c)};
  const bool negated = pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^');
  if (negated) ++brackets.at;
  const std::size_t first = brackets.at;  // a ']' here is one of the set
  while (brackets.at < pattern.size()) {
    if (pattern[brackets.at] == ']' && brackets.at != first) {
      return brackets.found != negated && c != '/' ? brackets.at + 1 : 0;
    }
    if (!brackets.Element()) return 0;
  }
  return 0;
}

// One pattern over one text. What failed once is not tried again: a pattern of many stars would
// otherwise take exponential time.
class Glob {
 public:
  Glob(std::string_view pattern, std::string_view text) : pattern_(pattern), text_(text) {}

  // Whether the rest of the pattern matches the rest of the text, whole.
  bool From(std::size_t pattern_at, std::size_t text_at) {
    if (failed_.empty()) failed_.resize((pattern_.size() + 1) * (text_.size() + 1));
    const std::size_t state = pattern_at * (text_.size() + 1) + text_at;
    if (failed_[state]) return false;
    if (Matches(pattern_at, text_at)) return true;
    failed_[state] = true;
    return false;
  }

 private:
  bool Matches(std::size_t p, std::size_t t) {
    for (; p < pattern_.size(); ++t) {
      if (pattern_[p] == '*') return MatchesStars(p, t);
      if (t == text_.size()) return false;
      const std::size_t length = OneByte(pattern_.substr(p), text_[t]);
      if (length == 0) return false;
      p += length;
    }
    return t == text_.size();
  }

  bool MatchesStars(std::size_t p, std::size_t t) {
    const std::size_t first = p;
    while (p < pattern_.size() && pattern_[p] == '*') ++p;
    const std::string_view rest = pattern_.substr(p);
    const bool crosses = p - first > 1 && (first == 0 || pattern_[first - 1] == '/') &&
                         (rest.empty() || rest[0] == '/' || rest.starts_with("\\/"));
    if (rest.empty()) return crosses || text_.find('/', t) == std::string_view::npos;
    if (crosses && rest[0] == '/' && From(p + 1, t)) return true;  // no directory at all
    for (; t < text_.size(); ++t) {
      if (From(p, t)) return true;
      if (!crosses && text_[t] == '/') return false;
    }
    return false;
  }

  // How much of the pattern stands for this byte; 0 = it is another one.
  static std::size_t OneByte(std::string_view pattern, char c) {
    if (pattern[0] == '[') return BracketsLength(pattern, c);
    if (pattern[0] == '?') return c != '/' ? 1 : 0;
    if (pattern[0] == '\\') return pattern.size() > 1 && pattern[1] == c ? 2 : 0;
    return pattern[0] == c ? 1 : 0;
  }

  const std::string_view pattern_;
  const std::string_view text_;
  std::vector<bool> failed_;
};

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view text) {
  return Glob(pattern, text).From(0, 0);
}

std::size_t LiteralLength(std::string_view pattern) {
  return std::min(pattern.find_first_of("*?[\\"), pattern.size());
}

}  // namespace launch
