// What the controller answers, as the JSON of `-o json` (docs/cli-json.md); without the version.
#pragma once

#include <vector>

#include "cli/json_values.h"
#include "common/diagnosis.h"
#include "common/plan.h"
#include "common/view.h"

namespace launch {

OrderedJson JsonOf(const std::vector<Finding>& findings);  // json_plan.cc
OrderedJson JsonOf(const BatchSplit& batch);
// Keys of the plan alone; the caller adds what stands beside it.
OrderedJson JsonOf(const Plan& plan);
OrderedJson JsonOf(const WaitReason& reason);  // json_job.cc
OrderedJson JsonOf(const JobView& job);
OrderedJson JsonOf(const NodeView& node);  // json_node.cc

}  // namespace launch
