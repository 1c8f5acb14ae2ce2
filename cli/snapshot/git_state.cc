#include "cli/snapshot/git_state.h"

#include <filesystem>
#include <fstream>

#include "cli/daemon.h"
#include "cli/snapshot/git_files.h"
#include "common/job.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr Millis kGitDeadline{8000};
constexpr std::string_view kCut = "\n[cut here]\n";

// Nothing that the repository's configuration could name is run: no hook, no differ, and no filter,
// each of which is set to nothing. A file of many MiB is compared as a whole, for its lines take
// minutes. `timeout` ends with 124.
constexpr const char* kDiffScript =
    "exec 2>/dev/null; cd \"$0\" || exit 1\n"
    "most=$1\n"
    "set -f -- --no-optional-locks -c core.fsmonitor=false -c core.bigFileThreshold=16m\n"
    "IFS='\n'\n"
    "for name in $(git \"$@\" config --name-only --get-regexp "
    "'^filter\\..*\\.(clean|process|required)$'); do set -- \"$@\" -c \"$name=\"; done\n"
    "git \"$@\" rev-parse -q --verify HEAD >/dev/null || exit 1\n"
    "late() { [ $? != 124 ] || echo '[cut here: git took longer than 3 s]'; }\n"
    "{ timeout 3 git \"$@\" diff --no-color --no-ext-diff --no-textconv HEAD -- .; late; } |\n"
    "  head -c \"$most\"\n"
    "{ timeout 3 git \"$@\" ls-files --others --exclude-standard; late; } |\n"
    "  sed 's/^/untracked: /' | head -c \"$most\"\n";

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
  const std::string head = FirstLineOfGitFile(git / "HEAD");
  if (!head.starts_with("ref: ")) return head;
  const std::string name = head.substr(5);
  const fs::path common = CommonGitDir(git);
  for (const fs::path& place : {git, common}) {
    if (std::string commit = FirstLineOfGitFile(place / name); !commit.empty()) return commit;
  }
  return PackedRef(common, name);
}

}  // namespace

GitState ReadGitState(const std::string& directory) {
  GitState state;
  const auto git = FindGit(directory);
  if (!git) return state;
  state.commit = CommitOf(git->dir);
  if (state.commit.empty()) return state;
  constexpr std::size_t kMost = kMaxGitDiffBytes / 2 - kCut.size();
  const auto diff = RunToEnd({"/bin/sh", "-c", kDiffScript, directory, std::to_string(kMost + 1)},
                             "", kGitDeadline);
  if (!diff) state.diff = "[not recorded: " + diff.error().message + "]\n";
  // Another code: no git here, or it does not trust the directory.
  if (!diff || diff->code != 0) return state;
  state.diff = diff->output;
  if (state.diff.size() > kMost) state.diff = state.diff.substr(0, kMost) + std::string(kCut);
  return state;
}

}  // namespace launch
