// What the job's paths are on a node: workdir, command, interpreter, and whether they are shared.
#pragma once

#include <vector>

#include "common/inventory.h"
#include "common/launch.h"
#include "preflight/report.h"

namespace launch {

// Paths that the line names, compared between the nodes: path_not_shared where some have one and
// others have not. What no node has may be an output, or may be fetched by the script.
struct FoundPaths {
  const NodeInventory& node;
  const std::vector<PathFact>& paths;
};
void JudgeNamedPaths(const std::vector<FoundPaths>& nodes, PreflightReport& report);

// workdir_missing, command_missing and path_not_shared.
void JudgePath(const AllocationSpec& spec, const PathFact& fact, const NodeInventory& node,
               PreflightReport& report);

}  // namespace launch
