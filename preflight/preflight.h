// Preflight: facts of nodes to findings. Pure; facts are probed by agents, judged only here.
#pragma once

#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/inventory.h"
#include "common/job.h"
#include "common/launch.h"
#include "common/plan.h"

namespace launch {

// A check that was made and passed: `launch check` lists these too.
struct Passed {
  std::string code;
  std::optional<NodeId> node;
  std::string says;
  friend bool operator==(const Passed&, const Passed&) = default;
};

struct PreflightReport {
  std::vector<Finding> findings;  // ordered by severity, node, code
  std::vector<Passed> passed;
};

// What inventories alone tell about a plan, before anything starts (rulings 30).
PreflightReport JudgeInventories(const JobSpec& spec, const Plan& plan,
                                 const std::vector<const NodeInventory*>& nodes);

// What staging found on one node: workdir_missing, command_missing, torch_cpu_only,
// path_not_shared, network_unreachable ...
PreflightReport JudgeStaging(const AllocationSpec& spec, const NodeInventory& inventory,
                             const StagingFacts& facts);

bool HasErrors(const std::vector<Finding>& findings);

}  // namespace launch
