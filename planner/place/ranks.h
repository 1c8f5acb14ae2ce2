// Processes over nodes: how many, where, with which devices and cores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/inventory.h"
#include "common/plan.h"
#include "planner/place/demand.h"
#include "planner/planner.h"

namespace launch {

struct NodeShare {
  const NodeInventory* inventory = nullptr;
  std::vector<int> gpus;  // of the job on this node, ascending
  int processes = 1;
  Rank first_rank = 0;
  int cpus = 1;                         // cores the job reserves on this node
  std::uint64_t free_memory_bytes = 0;  // for the job: of the node, or its own limit; 0: not known
};

struct RankLayout {
  std::vector<NodeShare> nodes;  // in node order: rank 0's node first
  int world_size = 1;
  int cpus_per_process = 1;  // that its threads may run on: the smallest over the nodes
};

// What `memory:` bounds the job to on that node; absent where it is a request only. GPU pages of a
// coherent node count as host memory, so nothing is bounded there.
std::optional<std::uint64_t> MemoryLimitOn(const NodeInventory& node, const JobSpec& spec);

RankLayout LayOutRanks(const JobSpec& spec, const Demand& demand,
                       const std::vector<PlannerOffer>& offers, const Placement& placement);

// More processes than devices, the same number on each.
bool SharesGpus(const NodeShare& share);

// Whether the GPUs can neither be shared evenly nor be the same number for each process: then every
// process sees all of them.
bool CannotDivideGpus(const NodeShare& share);

// Devices of one local rank: its own, the one that it shares with its neighbours, or all of the
// node's where they cannot be told apart.
std::vector<int> GpusOfRank(const NodeShare& share, int local_rank);

}  // namespace launch
