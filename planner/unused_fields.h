// Fields of a job that have no effect on the way its line is started: said, never passed over.
#pragma once

#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "common/plan.h"
#include "planner/line/launch_line.h"
#include "planner/place/ranks.h"

namespace launch {

// Checks `local_rank_arg: true`: kInvalidArgument for a line to which the argument cannot be added.
Result<void> CheckLocalRankArg(const JobSpec& spec, const LaunchLine& line);

// gpu_binding_no_effect, where `gpu_binding: per_rank` leaves ranks with all devices of their node.
std::vector<Finding> BindingFindings(const JobSpec& spec, const RankLayout& layout,
                                     const Plan& plan);

}  // namespace launch
