// What of a working directory belongs to its copy: all but .git, what .launchignore names, and what
// git leaves out of `git ls-files --cached --others --exclude-standard`.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/snapshot/git_repository.h"
#include "cli/snapshot/ignore_rules.h"

namespace launch {

// The rules of one directory of the walk. Paths are relative to the working directory.
class CopyRules {
 public:
  enum class Take {
    kNo,
    kUnsure,   // .gitignore names it, and whether git tracks it could not be asked
    kTracked,  // a directory that git ignores but for the files in it that it tracks
    kYes,
  };

  // The rules of the working directory itself. Reads, where it lies in a repository, the index by
  // git, the user's own excludes, those of the repository, and .gitignore from its root down. A
  // directory that these ignore altogether is wanted all the same: then they do not count.
  static CopyRules Around(const std::string& directory);

  // The rules of the directory `path` in this one, for which the walk said `take`. A repository in
  // it has rules of its own, as for git.
  CopyRules Below(const std::string& path, Take take) const;

  Take Of(const std::string& path, bool is_directory) const;

  const std::string& unsure_why() const { return index_->unread; }

 private:
  // What git tracks of the repository around or in the working directory.
  struct Index {
    std::vector<std::string> paths;  // sorted
    std::string unread;              // why they are not known
    bool Holds(const std::string& path) const;
    bool HoldsBelow(const std::string& directory) const;
  };

  void Enter(const GitRepository& repository, const std::string& path);
  void ReadFilesOf(const std::string& path);
  std::string InRepository(const std::string& path) const;

  std::filesystem::path root_;  // the working directory
  std::string outside_;         // its path in the repository around it; rules count from there
  IgnoreRules rules_;
  std::shared_ptr<const Index> index_ = std::make_shared<Index>();
  bool only_tracked_ = false;
};

}  // namespace launch
