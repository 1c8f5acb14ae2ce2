// What samples say of the GPUs and the host of an attempt, kept for the verdict on its end.
#pragma once

#include "controller/core/draft.h"

namespace launch::controller {

// Keeps faults (Xid, ECC) while the attempt runs or ends, and memory while it runs: after the end
// it only tells that the process is gone. A fault is an event, once for each GPU and number.
void WatchFaults(Draft& draft, const NodeId& node, const from_node::Samples& said);

// Keeps what PyTorch held after optimizer steps, of each rank that says it.
void WatchLayers(Draft& draft, const from_node::Samples& said);

// What was last seen of the GPUs that the rank was given.
LastSeen SeenOf(const State& state, const Key& key, const RankRecord& rank);

// Memory of a running rank, by its own report and the driver's; absent: neither has said anything.
std::optional<RankMemory> MemoryOf(const State& state, const Key& key, const RankRecord& rank);

// The rank's lines of the kernel without those about GPUs that the attempt did not have, which are
// another job's.
std::vector<std::string> OwnKernelLines(const State& state, const Key& key, const RankRecord& rank);

}  // namespace launch::controller
