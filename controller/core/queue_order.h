// In which order waiting jobs are tried.
#pragma once

#include <vector>

#include "controller/core/state.h"

namespace launch::controller {

// What keeps its place waits for nobody; then higher priority first; of equals the one that was
// submitted first.
std::vector<JobId> QueueOrder(const State& state);

}  // namespace launch::controller
