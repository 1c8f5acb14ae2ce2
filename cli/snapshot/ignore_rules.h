// What of a working directory is not copied: .gitignore and .launchignore, as git reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

// Git's rules do not reach what git tracks; those of .launchignore reach everything.
enum class RuleSource { kGit, kLaunch };

// The rules of one directory and of those above it. A later rule wins over an earlier one, a deeper
// file over one above, `!` takes back, `/` at the end means directories only, a `/` elsewhere binds
// to the file's directory, `**` crosses directories.
class IgnoreRules {
 public:
  // Adds the lines of a file that lies in `directory` (relative to the root, "" = the root itself).
  void Add(std::string_view text, std::string_view directory, RuleSource source = RuleSource::kGit);

  // Drops git's rules: those of a repository end where another one begins.
  void DropGitRules();

  // `path` relative to the root. That nothing below an ignored directory is looked at is the
  // caller's part.
  bool Ignores(std::string_view path, bool is_directory) const;
  bool IgnoresTracked(std::string_view path, bool is_directory) const;  // .launchignore alone

 private:
  struct Rule {
    std::string pattern;
    std::string directory;
    RuleSource source = RuleSource::kGit;
    bool negated = false;
    bool directories_only = false;
    bool anchored = false;  // to `directory`; else it is the last part that is compared
  };
  static bool Matches(const Rule& rule, std::string_view path, bool is_directory);

  std::vector<Rule> rules_;
};

}  // namespace launch
