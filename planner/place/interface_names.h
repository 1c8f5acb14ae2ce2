// NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME of another cluster.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/job.h"
#include "common/plan.h"
#include "planner/place/ranks.h"

namespace launch {

// interface_missing: `env:`, the text of `run` or a shell script of `files` names an interface that
// a node of the job has no address on.
std::vector<Finding> InterfacesMissing(const JobSpec& spec,
                                       const std::map<std::string, std::string>& files,
                                       const RankLayout& layout, const Plan& plan);

}  // namespace launch
