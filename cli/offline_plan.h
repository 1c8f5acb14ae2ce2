// `plan` and `check` from a list of inventories: the planner and preflight called directly.
#pragma once

#include <vector>

#include "common/error.h"
#include "common/inventory.h"
#include "common/job.h"
#include "common/view.h"
#include "preflight/preflight.h"

namespace launch {

struct OfflineAnswer {
  PlanAnswer answer;
  PreflightReport report;  // with what passed
};

// Every node counts as empty and answering. kCannotFit names the closest node.
Result<OfflineAnswer> PlanOffline(const JobSpec& spec, const SubmitContext& context,
                                  const std::vector<NodeInventory>& nodes);

}  // namespace launch
