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

// May this process join them? Not those that a set-user-ID runtime made for an ordinary user.
bool MayJoin(const RankNamespaces& inside);

// In a child before exec: only async-signal-safe calls. 0 or an errno. Ends in the directory of the
// process inside. A PID namespace is that of later children: then the caller forks.
int Join(const RankNamespaces& inside);

}  // namespace launch::agent
