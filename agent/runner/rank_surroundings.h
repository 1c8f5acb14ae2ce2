// What a rank's first process has, for commands that run beside it.
#pragma once

#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/runner/attempt_dir.h"
#include "agent/runner/rank_namespaces.h"
#include "common/error.h"
#include "common/unique_fd.h"

namespace launch::agent {

struct Beside {
  std::vector<std::string> env;
  UniqueFd cwd;
  std::string cwd_path;
  cpu_set_t cpus{};
  std::array<std::pair<__rlimit_resource_t, rlimit>, 3> limits;
  bool no_new_privileges = false;
  std::optional<LocalAccount> account;  // that the rank runs as; absent = the agent's own
  int pid = 0;
  std::optional<RankNamespaces> inside;  // of the image it runs in: joined there
};

Unexpected EndedRank(Rank rank);

// What the rank's first process has. kFailedPrecondition: it does not run any more, or its
// environment cannot be read.
Result<Beside> LookAtRank(const AttemptDir& dir, Rank rank);

// The environment of a rank in an image is that of its process inside, where that can be joined;
// otherwise nothing changes.
Result<void> LookInside(Beside& beside);

// Paths where `word` may be, the first that is there counts. In an image only a process inside can
// look. `contained`: the node's own programs count as well.
Result<std::vector<std::string>> ProgramsOf(const std::string& word, const Beside& beside,
                                            bool contained);

}  // namespace launch::agent
