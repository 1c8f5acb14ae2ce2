// How a probe differs from the job itself: a debug run that measures one micro-batch and ends.
#pragma once

#include <cstdint>

#include "common/job.h"
#include "common/launch.h"
#include "common/plan.h"
#include "planner/line/launch_line.h"

namespace launch {

// Enough for the states of the optimizer, which its first step makes, and a time that is not the
// first one's. Two passes each, so that gradients live across them as they do in the job.
inline constexpr std::int64_t kProbeSteps = 4;
inline constexpr std::int64_t kProbeAccumulate = 2;

// `job` as the probe of that micro-batch, in the way that `plan` has chosen for the job.
JobSpec AsProbe(JobSpec job, std::int64_t micro, const Plan& plan);
bool IsProbe(const JobSpec& job);
// Names of fields of `model:` that only a probe has.
bool IsProbeField(std::string_view name);
std::int64_t ProbeMicro(const JobSpec& job);

// Python's sitecustomize: torch's optimizer hook and torch's memory counters, no change of the
// script. It prints one line, kProbeMark and a JSON object; `ends`: and ends the process.
inline constexpr std::string_view kProbeMark = "launch-probe ";
GeneratedFile ProbeHook(bool ends);
// Puts the hook in front of the modules that Python finds, and the log behind file descriptor 19,
// which a redirection in the line does not move.
void WrapForProbe(LaunchLine& line);

}  // namespace launch
