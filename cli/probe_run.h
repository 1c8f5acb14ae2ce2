// `plan --probe`: a few steps of the user's own script at two micro-batches, run like any job.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app.h"
#include "cli/client.h"
#include "planner/choose/probe.h"

namespace launch {

// The micro-batches to measure: 1 and the planned one. Where nothing says that this one fits, at
// most 8: the line between two points reaches further. 2 when the plan has none.
std::vector<std::int64_t> ProbeMicros(const Plan& plan);

// What the hook of one run printed (planner/trainer/probe_plan.h): the largest over its ranks.
// Absent: no rank got to its second step.
std::optional<ProbePoint> ReadProbe(std::string_view log);

// What a debug run measured, kept with the controller; absent as above.
std::optional<ProbePoint> KeepDebugRun(Client& client, const JobView& done);

// Runs the probes one after the other, says how they went and has the controller keep what they
// measured. kFailedPrecondition: the first one measured nothing, with its last lines of output;
// what failed at the larger micro-batch is left out, and said.
Result<void> RunProbes(const App& app, Client& client, const SubmitCall& job, const Plan& plan);

}  // namespace launch
