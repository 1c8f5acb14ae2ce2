#include "cli/snapshot/ignore_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace launch {
namespace {

// `[:alpha:]` at the start of `text`; sets how long it is. Absent = no class of POSIX.
std::optional<bool> InClass(std::string_view text, char c, std::size_t* length) {
  struct Class {
    std::string_view name;
    int (*has)(int);
  };
  constexpr std::array<Class, 12> kClasses = {{{"[:alnum:]", std::isalnum},
                                               {"[:alpha:]", std::isalpha},
                                               {"[:blank:]", std::isblank},
                                               {"[:cntrl:]", std::iscntrl},
                                               {"[:digit:]", std::isdigit},
                                               {"[:graph:]", std::isgraph},
                                               {"[:lower:]", std::islower},
                                               {"[:print:]", std::isprint},
                                               {"[:punct:]", std::ispunct},
                                               {"[:space:]", std::isspace},
                                               {"[:upper:]", std::isupper},
                                               {"[:xdigit:]", std::isxdigit}}};
  for (const Class& one : kClasses) {
    if (!text.starts_with(one.name)) continue;
    *length = one.name.size();
    return one.has(static_cast<unsigned char>(c)) != 0;
  }
  return std::nullopt;
}

// The byte of `[...]` at the start of `pattern`; sets how long the brackets are. Absent = they
// never close: nothing matches.
std::optional<bool> InBrackets(std::string_view pattern, char c, std::size_t* length) {
  std::size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool found = false;
  for (bool first = true; at < pattern.size(); first = false) {
    if (pattern[at] == ']' && !first) {
      *length = at + 1;
      return found != negated;
    }
    std::size_t whole = 0;
    if (const auto in = InClass(pattern.substr(at), c, &whole)) {
      found = found || *in;
      at += whole;
      continue;
    }
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const char low = pattern[at];
    char high = low;
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
      high = pattern[at + 2];
      at += 2;
    }
    if (low <= c && c <= high) found = true;
    ++at;
  }
  return std::nullopt;
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
    while (p < pattern_.size()) {
      const std::string_view rest = pattern_.substr(p);
      if (rest.starts_with("**/")) return MatchesInAnyDirectory(p + 3, t);
      if (rest == "**") return true;
      if (rest[0] == '*') {
        while (p < pattern_.size() && pattern_[p] == '*') ++p;
        for (;; ++t) {
          if (From(p, t)) return true;
          if (t == text_.size() || text_[t] == '/') return false;
        }
      }
      if (t == text_.size()) return false;
      const std::size_t length = OneByte(rest, text_[t]);
      if (length == 0) return false;
      p += length;
      ++t;
    }
    return t == text_.size();
  }

  bool MatchesInAnyDirectory(std::size_t p, std::size_t t) {
    if (From(p, t)) return true;
    for (; t < text_.size(); ++t) {
      if (text_[t] == '/' && From(p, t + 1)) return true;
    }
    return false;
  }

  // How much of the pattern stands for this byte; 0 = it is another one.
  static std::size_t OneByte(std::string_view pattern, char c) {
    if (pattern[0] == '[') {
      std::size_t length = 1;
      return InBrackets(pattern, c, &length).value_or(false) && c != '/' ? length : 0;
    }
    if (pattern[0] == '?') return c != '/' ? 1 : 0;
    const std::size_t quote = pattern[0] == '\\' && pattern.size() > 1 ? 1 : 0;
    return pattern[quote] == c ? quote + 1 : 0;
  }

  const std::string_view pattern_;
  const std::string_view text_;
  std::vector<bool> failed_;
};

std::string_view Trimmed(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  while (line.ends_with(' ') && !line.ends_with("\\ ")) line.remove_suffix(1);
  return line;
}

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view text) {
  return Glob(pattern, text).From(0, 0);
}

void IgnoreRules::Add(std::string_view text, std::string_view directory, IgnoreFile file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    Rule rule;
    rule.directory = directory;
    rule.file = file;
    if (line[0] == '!') {
      rule.negated = true;
      line.remove_prefix(1);
    }
    if (line.ends_with('/')) {
      rule.directories_only = true;
      line.remove_suffix(1);
    }
    rule.anchored = line.find('/') != std::string_view::npos;
    if (line.starts_with('/')) line.remove_prefix(1);
    if (line.empty()) continue;
    rule.pattern = line;
    rules_.push_back(std::move(rule));
  }
}

bool IgnoreRules::Ignores(std::string_view path, bool is_directory) const {
  return LastSays(path, is_directory, true);
}

bool IgnoreRules::IgnoresTracked(std::string_view path, bool is_directory) const {
  return LastSays(path, is_directory, false);
}

bool IgnoreRules::LastSays(std::string_view path, bool is_directory, bool all) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (!all && rule->file == IgnoreFile::kGit) continue;
    if (rule->directories_only && !is_directory) continue;
    std::string_view below = path;
    if (!rule->directory.empty()) {
      const std::size_t length = rule->directory.size();
      if (!below.starts_with(rule->directory) || below.size() <= length || below[length] != '/') {
        continue;
      }
      below.remove_prefix(length + 1);
    }
    const std::size_t slash = below.rfind('/');
    const std::string_view name =
        rule->anchored || slash == std::string_view::npos ? below : below.substr(slash + 1);
    if (GlobMatches(rule->pattern, name)) return !rule->negated;
  }
  return false;
}

}  // namespace launch
