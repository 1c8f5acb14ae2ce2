// The Hugging Face trainer and a plan: what it does when a line does not say, and the flags that
// tell it the plan's numbers.
#pragma once

#include <cstdint>

#include "common/plan.h"
#include "planner/line/launch_line.h"
#include "planner/trainer/user_choices.h"

namespace launch {

// transformers/training_args.py, unchanged since 4.0: per_device_train_batch_size,
// gradient_accumulation_steps and max_grad_norm.
inline constexpr std::int64_t kHfMicroBatch = 8;
inline constexpr std::int64_t kHfEvaluationBatch = 8;  // per_device_eval_batch_size
inline constexpr std::int64_t kHfAccumulation = 1;
inline constexpr double kHfGradientClipping = 1.0;

// True when the line's script takes that trainer's flags: its HfArgumentParser reads a lone .json
// or .yaml file instead of flags.
bool TakesHfFlags(const UserChoices& choices, const LaunchLine& line);

// Would a batch that the plan chooses reach that trainer as flags? Not where a variable of the
// user's already writes a half of it.
bool TakesHfBatch(const UserChoices& choices, const LaunchLine& line);

// A job that leaves the batch open trains with the trainer's own: it becomes a constraint, and
// `read` says so. Nothing when the plan chooses the batch or a variable of the line fixes it.
void ApplyHfDefaults(const LaunchLine& line, UserChoices& choices);

// Appends what the line leaves open and the plan decides: batch, accumulation, precision and
// activation checkpointing. A flag of the line is never repeated: it is the user's.
void AppendHfFlags(const UserChoices& choices, LaunchLine& line, Plan& plan);

}  // namespace launch
