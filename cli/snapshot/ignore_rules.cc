#include "cli/snapshot/ignore_rules.h"

#include <algorithm>

#include "cli/snapshot/glob.h"

namespace launch {
namespace {

// Without the line's end and the blanks before it that no backslash keeps.
std::string_view Trimmed(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::size_t end = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == ' ') continue;
    if (line[at] == '\\') ++at;
    end = std::min(at + 1, line.size());
  }
  return line.substr(0, end);
}

}  // namespace

void IgnoreRules::Add(std::string_view text, std::string_view directory, RuleSource source) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    Rule rule;
    rule.directory = directory;
    rule.source = source;
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

void IgnoreRules::DropGitRules() {
  std::erase_if(rules_, [](const Rule& rule) { return rule.source == RuleSource::kGit; });
}

bool IgnoreRules::Matches(const Rule& rule, std::string_view path, bool is_directory) {
  if (rule.directories_only && !is_directory) return false;
  if (!rule.directory.empty()) {
    const std::size_t length = rule.directory.size();
    if (!path.starts_with(rule.directory) || path.size() <= length || path[length] != '/') {
      return false;
    }
    path.remove_prefix(length + 1);
  }
  if (!rule.anchored) return GlobMatches(rule.pattern, path.substr(path.rfind('/') + 1));
  // As git does it: what stands for itself first, so that the `**` of `foo**/bar` is at the start
  // of what is left and crosses directories.
  const std::string_view pattern = rule.pattern;
  const std::size_t literal = LiteralLength(pattern);
  return path.starts_with(pattern.substr(0, literal)) &&
         GlobMatches(pattern.substr(literal), path.substr(literal));
}

bool IgnoreRules::Ignores(std::string_view path, bool is_directory) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (Matches(*rule, path, is_directory)) return !rule->negated;
  }
  return false;
}

bool IgnoreRules::IgnoresTracked(std::string_view path, bool is_directory) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->source == RuleSource::kLaunch && Matches(*rule, path, is_directory)) {
      return !rule->negated;
    }
  }
  return false;
}

}  // namespace launch
