// What each node is told to run: the allocations of an attempt, made from its plan.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/launch.h"
#include "planner/line/launch_line.h"
#include "planner/place/ranks.h"
#include "planner/planner.h"

namespace launch {

struct NodePaths {  // variables in them expanded as the node would
  std::string checkpoint_dir;
  std::vector<Mount> mounts;
};

struct AllocationInput {
  const PlanInput& input;
  const LaunchLine& line;
  const RankLayout& layout;
  const Plan& plan;
  std::vector<NodePaths> paths;  // one per node
};

std::vector<AllocationSpec> MakeAllocations(const AllocationInput& input);

// The numbers of the plan as JSON, for LAUNCH_PLAN_FILE: plan.json.
GeneratedFile PlanFile(const Plan& plan, const JobSpec& spec);

}  // namespace launch
