// In which order waiting jobs are tried.
#pragma once

#include <vector>

#include "controller/core/state.h"

namespace launch::controller {

// The waiting jobs in the order in which they are served: those that keep a place first, then by
// higher priority, then by the time of submit.
std::vector<JobId> QueueOrder(const State& state);

}  // namespace launch::controller
