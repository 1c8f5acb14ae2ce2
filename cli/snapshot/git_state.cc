#include "cli/snapshot/git_state.h"

#include <filesystem>
#include <fstream>

#include "cli/daemon.h"
#include "common/job.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr Millis kGitDeadline{3000};
constexpr std::string_view kCut = "\n[cut here]\n";

// Nothing that the repository's configuration could name is run.
constexpr const char* kDiffScript =
    "exec 2>/dev/null; cd \"$0\" || exit 1\n"
    "git --no-optional-locks -c core.fsmonitor=false diff --no-color --no-ext-diff --no-textconv "
    "HEAD -- . || exit 1\n"
    "git --no-optional-locks -c core.fsmonitor=false ls-files --others --exclude-standard | "
    "sed 's/^/untracked: /'\n";

std::string FirstLineOf(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// `.git` above `dir`, also of a worktree, whose `.git` is a file that names the place.
fs::path GitDirOf(fs::path dir) {
  std::error_code ignored;
  for (; !dir.empty(); dir = dir.parent_path()) {
    const fs::path git = dir / ".git";
    if (fs::is_directory(git, ignored)) return git;
    if (fs::is_regular_file(git, ignored)) {
      const std::string line = FirstLineOf(git);
      if (line.starts_with("gitdir: ")) return dir / line.substr(8);
    }
    if (dir == dir.parent_path()) break;
  }
  return {};
}

std::string PackedRef(const fs::path& common, const std::string& name) {
  std::ifstream in(common / "packed-refs");
  for (std::string line; std::getline(in, line);) {
    if (line.size() > 41 && line.compare(41, std::string::npos, name) == 0) {
      return line.substr(0, 40);
    }
  }
  return {};
}

std::string CommitOf(const fs::path& git) {
  const std::string head = FirstLineOf(git / "HEAD");
  if (!head.starts_with("ref: ")) return head;
  const std::string name = head.substr(5);
  const std::string elsewhere = FirstLineOf(git / "commondir");
  const fs::path common = elsewhere.empty() ? git : git / elsewhere;
  for (const fs::path& place : {git, common}) {
    if (std::string commit = FirstLineOf(place / name); !commit.empty()) return commit;
  }
  return PackedRef(common, name);
}

}  // namespace

GitState ReadGitState(const std::string& directory) {
  GitState state;
  const fs::path git = GitDirOf(directory);
  if (git.empty()) return state;
  state.commit = CommitOf(git);
  if (state.commit.empty()) return state;
  const auto diff = RunToEnd({"/bin/sh", "-c", kDiffScript, directory}, "", kGitDeadline);
  if (!diff || diff->code != 0) return state;  // no git here, or it does not trust the directory
  state.diff = diff->output;
  constexpr std::size_t kMost = kMaxGitDiffBytes / 2 - kCut.size();
  if (state.diff.size() > kMost) state.diff = state.diff.substr(0, kMost) + std::string(kCut);
  return state;
}

}  // namespace launch
