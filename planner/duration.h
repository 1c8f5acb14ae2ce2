// How many optimizer steps a job makes; how long they take is not predicted yet.
#pragma once

#include <cstdint>
#include <optional>

#include "common/job.h"
#include "common/plan.h"

namespace launch {

// `steps:`, or the data set in whole batches per epoch: 2,500 samples, 3 epochs, global 64 -> 120.
std::optional<std::int64_t> StepsOf(const JobSpec& spec, const BatchSplit& batch);

}  // namespace launch
