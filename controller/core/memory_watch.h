// Memory of a running attempt: warnings when it gets scarce, and when its growth will exhaust it.
#pragma once

#include <vector>

#include "controller/core/draft.h"

namespace launch::controller {

// Looks at what a node measured for the attempts that run there: one event each time a line is
// crossed (80 % of a GPU, 70 % of the host and of the job's own `memory:`), one for a trend.
// Touches no job.
void WatchMemory(Draft& draft, const NodeId& node, const from_node::Samples& said);

// Most that a GPU of the attempt was seen to hold; 0 = none was sampled.
std::uint64_t PeakOfGpus(const State& state, const Key& key);

// Warnings that hold for the attempt now, for its status.
std::vector<Finding> MemoryWarnings(const State& state, const Key& key);

}  // namespace launch::controller
