// How a debug run (`submit --debug`) differs from the job itself.
#pragma once

#include <cstdint>

#include "common/job.h"
#include "planner/line/launch_line.h"
#include "planner/trainer/user_choices.h"

namespace launch {

inline constexpr std::int64_t kDebugSteps = 10;
inline constexpr std::int64_t kDebugSaveEvery = 5;
inline constexpr std::int64_t kDebugAccumulate = 16;
inline constexpr int kDebugWorkers = 1;

// micro-batch 1, at most 16 accumulated, 10 steps. Nothing for other jobs.
void ApplyDebug(UserChoices& choices);

// Appends the same as flags of the Hugging Face trainer after the line's own: its parser takes the
// last. Its checkpoints go to the directory of this run, not to that of the line.
void AppendDebugFlags(const UserChoices& choices, LaunchLine& line);

}  // namespace launch
