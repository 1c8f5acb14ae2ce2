// `submit --debug`: a few steps of a job, to see that it starts, saves and what it takes.
#pragma once

#include <optional>
#include <string>

#include "common/job.h"
#include "common/view.h"
#include "proto/convert_user.h"

namespace launch {

// Longest debug run: a script that ignores LAUNCH_MAX_STEPS is stopped then.
inline constexpr Millis kDebugLimit{10 * 60 * 1000};

// The job as a debug run: no retry, at most kDebugLimit. The planner does the rest (planner/
// debug_plan.h): 10 steps of micro-batch 1, a save every 5, one loader worker.
JobSpec AsDebugRun(JobSpec spec);

// The job that was made; of an array its first element.
JobId FirstJob(const SubmitAnswer& answer);

// What was measured, compared with the plan, and what that means for the full run. `full` is the
// plan of the job itself, `point` what the hook in its Python saw.
std::string DebugReport(const JobView& done, const std::optional<Plan>& full,
                        const std::optional<ProbePoint>& point = std::nullopt);

}  // namespace launch
