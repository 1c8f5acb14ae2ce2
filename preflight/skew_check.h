// What differs between the nodes of one job: a different torch or NCCL hangs or dies at start.
#pragma once

#include <vector>

#include "preflight/node_case.h"
#include "preflight/report.h"

namespace launch {

// version_skew over the nodes whose interpreter is known; nothing for a single node.
void JudgeSkew(const std::vector<NodeCase>& nodes, PreflightReport& report);

}  // namespace launch
