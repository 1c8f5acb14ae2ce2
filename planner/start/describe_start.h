// How the ranks are started, in the words of `launch plan`.
#pragma once

#include <string>

#include "common/plan.h"
#include "planner/line/launch_line.h"
#include "planner/place/ranks.h"

namespace launch {

// Whether the job is one process without a GPU, whose script would take RANK for a sign of several
// on GPUs.
bool StartsAlone(const LaunchLine& line, const RankLayout& layout, const Plan& plan);

// Fills start, launcher, command and the first sentences of `read`.
void DescribeStart(const LaunchLine& line, const RankLayout& layout, const std::string& interpreter,
                   Plan& plan);

}  // namespace launch
