// What the plugins of accelerate and of the Hugging Face trainer can do on a CPU.
#pragma once

#include <optional>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/plan.h"
#include "planner/line/launch_line.h"
#include "planner/trainer/user_choices.h"

namespace launch {

// Whether DeepSpeed's engine trains: by the plan, a file or the line of accelerate.
bool TrainsByDeepspeed(const UserChoices& choices, const LaunchLine& line, const Plan& plan);

// Refuses, with kCannotFit, trainers that on the CPU would silently ignore the strategy or give
// each rank all of the data.
Result<void> CheckCpuTrainer(const UserChoices& choices, const LaunchLine& line, const Plan& plan);

// A script inside a text brings a DeepSpeed file, and whose trainer it uses is not known.
std::optional<Finding> UnseenCpuTrainer(const UserChoices& choices, const LaunchLine& line,
                                        const Plan& plan);

}  // namespace launch
