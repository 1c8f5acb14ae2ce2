// Can the job's torch use the node's GPUs? Judged from what a probe of its interpreter told.
#pragma once

#include "common/inventory.h"
#include "preflight/preflight.h"

namespace launch {

// Adds findings and passed checks about one interpreter on one node of a GPU job.
void JudgeTorch(const NodeInventory& node, const RuntimeFacts& runtime, PreflightReport& report);

}  // namespace launch
