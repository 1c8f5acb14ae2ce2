// What a job left in its copy of workdir, for `launch cp`: the copy outlives the attempt, whose
// ranks and control group are gone.
#pragma once

#include <functional>
#include <string>

#include "agent/account/local_account.h"
#include "agent/runner/exec_process.h"
#include "common/error.h"
#include "common/exec.h"
#include "common/ids.h"

namespace launch::agent {

struct CopyPlace {
  std::string state_dir;
  Key key;
  std::string node;  // for sentences
  JobCopy copy;
  // The account that owns the copies of a user's jobs; empty: the agent's own.
  std::function<Result<LocalAccount>(const std::string& owner)> account_of;
};

struct PathInCopy {
  std::string directory;  // relative to the copy
  std::string name;       // in it; "." for all of it
  friend bool operator==(const PathInCopy&, const PathInCopy&) = default;
};

// Finds the place of `path` in the copy: "out/model.pt", or an absolute path below the copy
// `directory` or below the `workdir` that it is a copy of. Pure: whoever opens it has to mind
// links. kPermissionDenied: the path is elsewhere.
Result<PathInCopy> FindInCopy(const std::string& path, const std::string& directory,
                              const std::string& workdir);

// Starts a process, as the job's account, that writes a tar archive of the path to its standard
// output. Neither the path nor a link on its
// way leads out of the copy; links in the archive are links. kNotFound: there is no copy, or
// nothing of that name in it.
Result<ExecProcess> ReadCopy(const CopyPlace& place, const std::string& path);

}  // namespace launch::agent
