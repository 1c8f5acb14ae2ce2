// What we ended ourselves has a verdict without any log: who ended it, and what goes on from there.
#pragma once

#include <optional>

#include "common/diagnosis.h"
#include "common/job.h"
#include "controller/core/record.h"

namespace launch::controller {

// Absent where the attempt was not stopped for its time limit or to run again. A job that was
// requeued runs again by itself, so there is no remedy.
std::optional<Verdict> VerdictOfStop(const JobSpec& spec, const AttemptRecord& attempt);

}  // namespace launch::controller
