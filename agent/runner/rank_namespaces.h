// The namespaces of a rank that runs in the image of a runtime without a daemon (apptainer,
// enroot): a command beside it joins them, as nsenter does, and so sees what the rank sees.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/unique_fd.h"

namespace launch::agent {

struct RankNamespaces {
  int pid = 0;       // of the rank's first process inside
  UniqueFd process;  // its pidfd
  int kinds = 0;     // CLONE_NEW* in which it differs from this process
  UniqueFd root;
  UniqueFd cwd;
  std::vector<std::string> env;  // that it was started with
};

std::vector<std::string> ReadEnviron(int pid);

// The first process of `rank_pid`'s family that the runtime started inside; fails while there is
// none. It is open in no child.
Result<RankNamespaces> FindInside(int rank_pid);

// Whether this process may join the namespaces. It may not join those that a set-user-ID runtime
// made for an ordinary user.
bool MayJoin(const RankNamespaces& inside);

// Joins the namespaces and enters the directory of the process inside. For a child before exec:
// only async-signal-safe calls. Returns 0 or an errno. A PID namespace is only entered by later
// children, so the caller has to fork.
int Join(const RankNamespaces& inside);

}  // namespace launch::agent
