// Whether the nodes of a job reach each other, and how fast, and whether their clocks agree.
#pragma once

#include <map>
#include <vector>

#include "common/launch.h"
#include "preflight/node_case.h"
#include "preflight/report.h"

namespace launch {

// network_slow: speed and MTU of the interfaces that the nodes of a job would use.
void JudgeLinks(const std::vector<NodeCase>& nodes, PreflightReport& report);

// network_unreachable: several addresses of rank 0's node are tried, one that answers is enough.
void JudgeReach(const StagingFacts& facts, const NodeInventory& node, PreflightReport& report);

// clock_skew: offset of each node's clock against the controller's, in milliseconds.
void JudgeClocks(const std::map<NodeId, std::int64_t>& offsets_ms, PreflightReport& report);

}  // namespace launch
