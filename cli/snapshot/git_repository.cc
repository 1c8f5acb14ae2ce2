#include "cli/snapshot/git_repository.h"

#include <fstream>

#include "common/first_line.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

std::string PackedRef(const fs::path& common, const std::string& name) {
  std::ifstream in(common / "packed-refs");
  for (std::string line; std::getline(in, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos && line.compare(space + 1, std::string::npos, name) == 0) {
      return line.substr(0, space);
    }
  }
  return {};
}

std::string CommitOf(const GitRepository& repository) {
  const std::string head = FirstLine(repository.own / "HEAD");
  if (!head.starts_with("ref: ")) return head;
  const std::string name = head.substr(5);
  for (const fs::path& place : {repository.own, repository.common}) {
    if (std::string commit = FirstLine(place / name); !commit.empty()) return commit;
  }
  return PackedRef(repository.common, name);
}

}  // namespace

std::optional<GitRepository> GitRepositoryAt(const fs::path& root) {
  std::error_code ignored;
  GitRepository found{.root = root, .own = root / ".git", .common = {}, .commit = {}};
  if (fs::is_regular_file(found.own, ignored)) {  // of a linked working tree or a submodule
    const std::string line = FirstLine(found.own);
    if (!line.starts_with("gitdir: ")) return std::nullopt;
    found.own = (root / line.substr(8)).lexically_normal();
  }
  if (!fs::is_regular_file(found.own / "HEAD", ignored)) return std::nullopt;
  const std::string elsewhere = FirstLine(found.own / "commondir");
  found.common = elsewhere.empty() ? found.own : (found.own / elsewhere).lexically_normal();
  found.commit = CommitOf(found);
  return found;
}

std::optional<GitRepository> GitRepositoryAround(const fs::path& directory) {
  std::error_code error;
  fs::path at = fs::canonical(directory, error);
  if (error) return std::nullopt;
  for (;; at = at.parent_path()) {
    if (auto found = GitRepositoryAt(at)) return found;
    if (at == at.parent_path()) return std::nullopt;
  }
}

}  // namespace launch
