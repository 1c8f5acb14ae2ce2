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
};

Unexpected EndedRank(Rank rank);

// kFailedPrecondition: it does not run any more, or its environment cannot be read.
Result<Beside> LookAtRank(const AttemptDir& dir, Rank rank);

}  // namespace launch::agent
