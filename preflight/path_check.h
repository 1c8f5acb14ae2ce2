// What the job's paths are on a node: workdir, command, interpreter, and whether they are shared.
#pragma once

#include "common/launch.h"
#include "preflight/report.h"

namespace launch {

// workdir_missing, command_missing and path_not_shared.
void JudgePath(const AllocationSpec& spec, const PathFact& fact, const NodeInventory& node,
               PreflightReport& report);

}  // namespace launch
