#include "cli/snapshot/git_state.h"

#include <algorithm>
#include <string_view>

#include "cli/snapshot/git_repository.h"
#include "cli/snapshot/quiet_git.h"
#include "common/job.h"
#include "common/units.h"

namespace launch {
namespace {

// Together at most 64 KiB with the lines that say what is missing.
constexpr std::size_t kMostUntracked = 8 * 1024;
constexpr std::size_t kMostDiff = 54 * 1024;
static_assert(kMostUntracked * 2 + kMostDiff < kMaxGitDiffBytes);

std::string FirstLineOfError(std::string_view text) {
  constexpr std::size_t kMost = 200;
  return std::string(text.substr(0, std::min(text.find('\n'), kMost)));
}

// One line for each; what RecordedOutput says of missing ones stays as it is.
std::string Untracked(std::string_view names) {
  std::string text;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find('\n'));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    if (name.empty()) continue;
    const bool is_note = name.starts_with("[cut here: ") || name.starts_with("[not recorded: ");
    text += is_note ? "" : "untracked: ";
    text.append(name) += '\n';
  }
  return text;
}

}  // namespace

std::string RecordedOutput(const Result<Finished>& git, std::size_t most) {
  const bool late = !git && git.error().code == ErrorCode::kDeadlineExceeded;
  if (!git && !late) return "[not recorded: " + git.error().message + "]\n";
  std::string text = late ? git.error().hint : git->output;
  std::string why;
  if (text.size() > most) {
    text.resize(text.rfind('\n', most - 1) + 1);
    why = "it is longer than " + FormatBytes(most);
  } else if (late) {
    why = "git took too long";
  } else if (git->code != 0) {
    why = "git ended with exit code " + std::to_string(git->code) + ": " +
          FirstLineOfError(git->errors);
  } else {
    return text;
  }
  if (text.empty()) return "[not recorded: " + why + "]\n";
  if (!text.ends_with('\n')) text += '\n';
  return text + "[cut here: " + why + "]\n";
}

GitState ReadGitState(const std::string& directory, Millis deadline) {
  GitState state;
  const auto repository = GitRepositoryAround(directory);
  if (!repository || repository->commit.empty()) return state;
  state.commit = repository->commit;
  const auto git = QuietGit::Open(*repository, deadline);
  if (!git) {
    state.diff = "[not recorded: " + git.error().message + "]\n";
    return state;
  }
  // A file of many MiB is compared as a whole, for its lines take minutes. A look into a submodule
  // would be a git of its own, with the submodule's configuration.
  const auto diff =
      git->Run(directory,
               {"-c", "core.bigFileThreshold=16m", "diff", "--no-color", "--no-ext-diff",
                "--no-textconv", "--ignore-submodules=dirty", "HEAD", "--", "."},
               deadline);
  state.diff = RecordedOutput(diff, kMostDiff);
  if (!diff && diff.error().code == ErrorCode::kNotFound) return state;
  const auto untracked =
      git->Run(directory, {"ls-files", "--others", "--exclude-standard"}, deadline);
  state.diff += Untracked(RecordedOutput(untracked, kMostUntracked));
  return state;
}

}  // namespace launch
