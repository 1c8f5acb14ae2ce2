// Starts one launch-shim with everything it inherits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/shim/shim_spec.h"
#include "common/error.h"
#include "common/unique_fd.h"

namespace launch::agent {

struct ShimStart {
  std::string shim_path;
  std::string directory;  // rank.R: the shim makes start, exit and control there
  bool split_streams = false;
  std::optional<LocalAccount> account;  // whose the logs become
  shim::ShimSpec spec;
  std::vector<int> locks;  // borrowed; inherited by the shim and by the rank
  std::vector<int> ports;  // borrowed; held by the shim only
  int output = -1;         // borrowed; where the rank writes instead of its log
};

struct StartedShim {
  int pid = 0;  // our child: reap it behind the pidfd
  UniqueFd pidfd;
};

// The shim leads its own session, has an empty environment of its own, and is born in its cgroup
// where the kernel can; it is executed when this returns. Between fork and exec the child makes
// async-signal-safe calls only: the agent has threads.
Result<StartedShim> StartShim(const ShimStart& start);

// Opens (or makes) a rank's log for appending; the account may open it again as /dev/stdout.
Result<UniqueFd> OpenLog(const std::string& path, const std::optional<LocalAccount>& account);

}  // namespace launch::agent
