// What the nodes of a job found when they spoke with each other: the half of a full preflight that
// no node can judge alone.
#pragma once

#include <string>
#include <vector>

#include "common/inventory.h"
#include "common/job.h"
#include "common/launch.h"
#include "preflight/report.h"

namespace launch {

struct TestedNode {
  const NodeInventory& inventory;
  const NetworkFacts& facts;
};

// Whether another node was met at an address of this one: nodes of one machine, as `dev up` makes
// them, between which its memory and its load are measured.
bool IsOnOneMachine(const NodeInventory& from, const std::string& address);

// `nodes` by place. network_unreachable: two nodes that do not meet, an all-reduce that fails;
// network_slow: a link far below its interfaces or below the others. Lines without a node say how
// it went as a whole.
PreflightReport JudgeNetwork(NetworkCheck wanted, const std::vector<TestedNode>& nodes);

}  // namespace launch
