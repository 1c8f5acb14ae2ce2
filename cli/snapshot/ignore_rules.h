// What of a working directory is not copied: .gitignore and .launchignore, as git reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

// `.gitignore` says nothing of what git tracks, `.launchignore` of everything.
enum class IgnoreFile { kGit, kLaunch };

// The rules of one directory and of those above it. A later rule wins over an earlier one, a deeper
// file over one above, `!` takes back, `/` at the end means directories only, a `/` elsewhere binds
// to the file's directory, `**` crosses directories.
class IgnoreRules {
 public:
  // Adds the lines of a file that lies in `directory` (relative to the root, "" = the root itself).
  void Add(std::string_view text, std::string_view directory, IgnoreFile file = IgnoreFile::kGit);

  // `path` relative to the root. That nothing below an ignored directory is looked at is the
  // caller's part.
  bool Ignores(std::string_view path, bool is_directory) const;
  // The same for what git tracks.
  bool IgnoresTracked(std::string_view path, bool is_directory) const;

 private:
  struct Rule {
    std::string pattern;
    std::string directory;
    IgnoreFile file = IgnoreFile::kGit;
    bool negated = false;
    bool directories_only = false;
    bool anchored = false;  // to `directory`; else it is the last part that is compared
  };
  // Of the last rule that matches; those of git's files only where `all`.
  bool LastSays(std::string_view path, bool is_directory, bool all) const;

  std::vector<Rule> rules_;
};

// `*` and `?` stop at '/', `**` does not, `[a-z]`, `[!a-z]` and `[[:digit:]]` are one byte,
// `\` quotes. Brackets that never close match nothing.
bool GlobMatches(std::string_view pattern, std::string_view text);

}  // namespace launch
