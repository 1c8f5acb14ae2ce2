// How fast the nodes of a job exchange data: as their adapters say, or as they were measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/network_link.h"
#include "planner/place/ranks.h"

namespace launch {

struct NetworkSpeed {
  std::optional<double> node_gbps;  // GB/s of all adapters of the slowest node; absent: not known
  std::string says;                 // what was measured, of the slowest pair; empty: nothing was
  std::optional<Finding> slow;      // network_slow: a pair far below its adapters
};

// A measurement replaces the speed that the adapters of the pair negotiated, in the proportion that
// it has of one adapter: that of NCCL where there is one, else that of plain TCP, which says
// nothing of RDMA, and of a fast link no more than the measuring program can fill. The slowest pair
// counts.
NetworkSpeed NetworkOf(const RankLayout& layout, const std::vector<MeasuredPair>& measured);

}  // namespace launch
