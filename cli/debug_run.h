// `submit --debug`: a few steps of a job, to see that it starts, saves and what it takes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/job.h"
#include "common/view.h"
#include "proto/convert_user.h"

namespace launch {

// Longest debug run: a script that ignores LAUNCH_MAX_STEPS is stopped then.
inline constexpr Millis kDebugLimit{10 * 60 * 1000};

// The job as a debug run: no retry, no resume, at most kDebugLimit. The planner does the rest
// (planner/debug_plan.h): 10 steps of micro-batch 1, a save every 5, one loader worker.
JobSpec AsDebugRun(JobSpec spec);

// Gives a debug run a checkpoint directory beside the job's, "out.debug-1a2b3c4d": what it saves is
// of another batch, and the job would resume from it. `key`, the submit's, makes it one of its own,
// as a script that looks for the newest itself would go on from an earlier debug run. Nothing for
// other jobs, and for those without `checkpoint.dir`.
void KeepCheckpointsApart(JobSpec& spec, std::string_view key);

// Where the checkpoints of the debug run `ran` of `job` lie, and what was written into the job's
// own directory since `began` (the clock of this machine), where this machine has it. Empty: the
// job names no directory.
std::string DebugCheckpoints(const JobSpec& job, const JobSpec& ran,
                             std::filesystem::file_time_type began);

// The job that was made; of an array its first element.
JobId FirstJob(const SubmitAnswer& answer);

// What was measured, compared with the plan, and what that means for the full run. `full` is the
// plan of the job itself, `point` what the hook in its Python saw.
std::string DebugReport(const JobView& done, const std::optional<Plan>& full,
                        const std::optional<ProbePoint>& point = std::nullopt);

}  // namespace launch
