// What a user must know of the launcher's flags when its ranks are started without it.
#pragma once

#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/job.h"
#include "planner/line/launcher_arguments.h"

namespace launch {

// Flags and variables (`overridden`) whose values the plan replaces, in one notice; flags without a
// meaning; a number of processes that the line leaves open.
std::vector<Finding> LauncherNotes(const LauncherArguments& arguments, LauncherKind launcher,
                                   const std::vector<std::string>& overridden);

// A hostfile of DeepSpeed that is not at hand.
Finding HostfileUnread(const std::string& path);

// What the line leaves to the node where the job leaves it open too. kNode: a launcher inside.
std::vector<Finding> OpenCountNotes(ProcsWord procs, LauncherKind launcher);

}  // namespace launch
