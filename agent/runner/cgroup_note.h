// File `cgroups` of an attempt: the control groups that its processes were started in. Those of the
// agent may be others by the next start: another cgroup_root, containment or state directory.
#pragma once

#include <optional>
#include <string>

#include "agent/runner/cgroup.h"
#include "common/error.h"
#include "common/file_system.h"

namespace launch::agent {

// Writes the file without a sync: a host that goes down ends what is in the groups too.
Result<void> NoteCgroups(FileSystem& files, const std::string& attempt_dir, const CgroupHost& host);

// The groups that the file names; absent also where it cannot be read: then the processes tell.
std::optional<CgroupHost> NotedCgroups(FileSystem& files, const std::string& attempt_dir);

}  // namespace launch::agent
