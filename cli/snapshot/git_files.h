// What git knows of a working directory: where its repository is, and what it tracks of it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace launch {

struct GitPlace {
  std::filesystem::path root;  // of the working tree
  std::filesystem::path dir;   // .git, also that of a worktree, which lies elsewhere
};

// The repository around `directory`, if there is one.
std::optional<GitPlace> FindGit(const std::filesystem::path& directory);

// Where refs and info/exclude are: of a worktree, those of the repository it belongs to.
std::filesystem::path CommonGitDir(const std::filesystem::path& dir);

// Of HEAD, a ref, `gitdir:` and the like; empty where there is no such file.
std::string FirstLineOfGitFile(const std::filesystem::path& path);

using GitPaths = std::set<std::string, std::less<>>;

// What git tracks below `directory` although a pattern of .gitignore covers it, and the directories
// above, relative to `directory`. Asked of `git`; empty where there is none or it takes too long.
GitPaths TrackedThoughIgnored(const std::string& directory);

}  // namespace launch
