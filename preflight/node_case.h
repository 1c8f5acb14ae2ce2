// What one node of a job is judged on, and what several rules ask of it.
#pragma once

#include <string>
#include <vector>

#include "common/inventory.h"
#include "common/job.h"
#include "common/plan.h"

namespace launch {

// Borrowed values; lives as long as they do. `runtime` is null when it is not certain which
// interpreter the job uses on this node, or nothing is known of it.
struct NodeCase {
  const JobSpec& spec;
  const Plan& plan;
  const NodeInventory& node;
  const RuntimeFacts* runtime = nullptr;
};

// The probed facts of the job's own interpreter, when it is certain that they are its: the venv or
// path the job names, the only interpreter the node knows, or the first of its PATH.
const RuntimeFacts* RuntimeOf(const JobSpec& spec, const Plan& plan, const NodeInventory& node);

// Value of a variable in the environment of the node's first rank; empty when it is not set.
std::string RankVariable(const NodeCase& c, const std::string& name);
int RanksOn(const Plan& plan, const NodeId& node);
int NodesOf(const Plan& plan);
// Positions of the GPUs that the job gets on the node, ascending.
std::vector<std::size_t> GpusUsed(const Plan& plan, const NodeInventory& node);

inline std::string On(const NodeInventory& node) { return " on " + node.node.value; }

}  // namespace launch
