// What we ended ourselves has a verdict without any log: who ended it, and what goes on from there.
#pragma once

#include <optional>

#include "common/diagnosis.h"
#include "common/job.h"
#include "controller/core/record.h"

namespace launch::controller {

// The verdict of an attempt that was stopped for its time limit or to run again; absent for any
// other. A job that was requeued runs again by itself, so that verdict has no remedy.
std::optional<Verdict> VerdictOfStop(const JobSpec& spec, const AttemptRecord& attempt);

}  // namespace launch::controller
