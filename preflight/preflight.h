// Preflight: facts of nodes to findings. Pure; facts are probed by agents, judged only here.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/inventory.h"
#include "common/job.h"
#include "common/launch.h"
#include "common/plan.h"
#include "preflight/report.h"

namespace launch {

// What a job asks for that no node of it can give, before any plan is made: an image without a
// container runtime. `nodes` are those it may run on.
PreflightReport JudgeSpec(const JobSpec& spec, const std::vector<const NodeInventory*>& nodes);

// What inventories alone tell about a plan, before anything starts: an error here refuses the
// submit. What they do not know is probed while the job is staged.
PreflightReport JudgeInventories(const JobSpec& spec, const Plan& plan,
                                 const std::vector<const NodeInventory*>& nodes);

// A node by itself, without a job: driver, GPUs, limits and each interpreter. A torch that cannot
// use the GPUs is a warning here, as another interpreter may be meant for them.
PreflightReport JudgeNode(const NodeInventory& node);

// What staging found on one node: workdir_missing, command_missing, torch_cpu_only,
// path_not_shared, network_unreachable ...
PreflightReport JudgeStaging(const AllocationSpec& spec, const NodeInventory& inventory,
                             const StagingFacts& facts);

// What staging found on the nodes of one attempt, compared with each other: version_skew, and
// clock_skew from the offsets of the nodes' clocks against the controller's.
struct StagedNode {
  const AllocationSpec& spec;
  const NodeInventory& inventory;
  const StagingFacts& facts;
};
PreflightReport JudgeTogether(const JobSpec& spec, const Plan& plan,
                              const std::vector<StagedNode>& nodes,
                              const std::map<NodeId, std::int64_t>& clock_offsets_ms);

}  // namespace launch
