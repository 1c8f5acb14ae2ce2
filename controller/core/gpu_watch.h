// GPUs that fail under a running attempt, as the facts of their node say.
#pragma once

#include <vector>

#include "controller/core/draft.h"

namespace launch::controller {

// Records one event for each GPU of a running attempt that the node calls bad now and did not
// before. Touches no job: its program may be done with the GPU, or else ends by itself or hangs.
void TellFailedGpus(Draft& draft, const NodeId& node, const NodeInventory& before,
                    const NodeInventory& now);

// Failed GPUs of the attempt as known now, for its status.
std::vector<Finding> GpuFailures(const State& state, const Key& key);

// "GPU 1 (UUID): lost: ..." where the GPU is bad or gone; else empty.
std::string WhyGpuFails(const NodeInventory& inventory, const GpuUuid& gpu);

}  // namespace launch::controller
