// `plan` and `check` from a list of inventories: the planner and preflight called directly.
#pragma once

#include <vector>

#include "common/error.h"
#include "common/inventory.h"
#include "common/job.h"
#include "common/view.h"
#include "preflight/preflight.h"

namespace launch {

// What the controller would answer if every node were empty and answering. kCannotFit names the
// closest node.
Result<PlanAnswer> PlanOffline(const JobSpec& whole, const SubmitContext& context,
                               const std::vector<NodeInventory>& nodes,
                               const PlanQuestions& questions = {});

// What `launch check` shows of an answer: preflight's findings and checks, and those warnings of
// the plan that have a preflight code.
PreflightReport ReportOf(const PlanAnswer& answer);

}  // namespace launch
