// Which program a job runs: what must be the same for a measurement to tell of it again.
#pragma once

#include <string>

#include "common/job.h"

namespace launch {

// 16 hex digits of the command, setup, interpreter, environment, model, trainer and configuration
// files. Not of the batch, the strategy, precision and checkpointing (the plan says those), nor of
// what makes a job a probe.
std::string DigestOfProgram(const JobSpec& spec, const SubmitContext& context);

}  // namespace launch
