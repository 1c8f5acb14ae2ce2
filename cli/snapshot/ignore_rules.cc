#include "cli/snapshot/ignore_rules.h"

#include <algorithm>
#include <optional>

namespace launch {
namespace {

// The byte of `[...]` at the start of `pattern`; sets how long the brackets are. Absent = they
// never close, so that '[' stands for itself.
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

std::string_view Trimmed(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  while (line.ends_with(' ') && !line.ends_with("\\ ")) line.remove_suffix(1);
  return line;
}

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view text) {
  while (!pattern.empty()) {
    if (pattern.starts_with("**/")) {
      if (GlobMatches(pattern.substr(3), text)) return true;
      for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '/' && GlobMatches(pattern.substr(3), text.substr(i + 1))) return true;
      }
      return false;
    }
    if (pattern == "**") return true;
    if (pattern[0] == '*') {
      while (pattern.starts_with('*')) pattern.remove_prefix(1);
      for (std::size_t i = 0;; ++i) {
        if (GlobMatches(pattern, text.substr(i))) return true;
        if (i == text.size() || text[i] == '/') return false;
      }
    }
    if (text.empty()) return false;
    std::size_t length = 1;
    bool matches = false;
    std::optional<bool> brackets;
    if (pattern[0] == '[') brackets = InBrackets(pattern, text[0], &length);
    if (brackets) {
      matches = *brackets && text[0] != '/';
    } else if (pattern[0] == '?') {
      matches = text[0] != '/';
    } else {
      if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
      matches = pattern[0] == text[0];
    }
    if (!matches) return false;
    pattern.remove_prefix(length);
    text.remove_prefix(1);
  }
  return text.empty();
}

void IgnoreRules::Add(std::string_view text, std::string_view directory) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    Rule rule;
    rule.directory = directory;
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
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
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
