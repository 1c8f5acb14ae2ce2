// The state of the repository around a working directory, recorded with a job.
#pragma once

#include <string>

namespace launch {

struct GitState {
  std::string commit;  // empty = no repository, or no commit yet
  std::string diff;    // of the working tree against it, untracked files named; cut when long
};

// Commit from the repository's files; the diff from `git`, where there is one, within a few
// seconds.
GitState ReadGitState(const std::string& directory);

}  // namespace launch
