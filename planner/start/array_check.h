// What must hold between the jobs of an array.
#pragma once

#include "common/error.h"
#include "common/job.h"

namespace launch {

// `whole` still has its array. Refuses a checkpoint directory that two elements would share: the
// second would resume from what the first one saved.
Result<void> CheckArray(const JobSpec& whole, const SubmitContext& context);

}  // namespace launch
