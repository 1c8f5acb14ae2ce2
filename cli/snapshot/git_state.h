// The state of the repository around a working directory, recorded with a job.
#pragma once

#include <string>

#include "cli/daemon.h"
#include "common/clock.h"
#include "common/error.h"

namespace launch {

struct GitState {
  std::string commit;  // empty = no repository, or no commit yet
  std::string diff;    // of the working tree against it, untracked files named; empty = no change
};

// How long a submit waits for the difference.
inline constexpr Millis kGitDeadline{3000};

// Commit from the repository's files; the diff from `git`, without anything that the repository's
// configuration names. A diff that is not whole says so and why.
GitState ReadGitState(const std::string& directory, Millis deadline = kGitDeadline);

// What is recorded of an output of git: all of it, or whole lines of at most `most` bytes and the
// reason why the rest is missing.
std::string RecordedOutput(const Result<Finished>& git, std::size_t most);

}  // namespace launch
