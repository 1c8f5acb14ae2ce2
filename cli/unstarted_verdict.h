// The verdict of a job that no node has tried to start.
#pragma once

#include "common/error.h"
#include "common/view.h"

namespace launch {

// What ended the job while it was queued. kFailedPrecondition, with what to ask instead, where
// nothing of it has failed.
Result<Verdict> VerdictOfUnstarted(const JobView& job);

}  // namespace launch
