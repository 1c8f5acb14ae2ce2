#include "planner/trainer/debug_plan.h"

#include <algorithm>
#include <string>

#include "planner/trainer/probe_plan.h"

namespace launch {

void ApplyDebug(UserChoices& choices) {
  JobSpec& job = choices.job;
  if (!job.debug) return;
  if (IsProbe(job)) {
    job.batch = {std::nullopt, ProbeMicro(job), kProbeAccumulate};
    job.steps = kProbeSteps;
    choices.read.push_back("probe: " + std::to_string(kProbeSteps) + " steps of micro-batch " +
                           std::to_string(ProbeMicro(job)));
    return;
  }
  const std::int64_t accumulate =
      std::min(job.batch.accumulate.value_or(kDebugAccumulate), kDebugAccumulate);
  job.batch = {std::nullopt, 1, accumulate};
  job.steps = kDebugSteps;
  choices.read.push_back("debug run: " + std::to_string(kDebugSteps) +
                         " steps of micro-batch 1, a checkpoint every " +
                         std::to_string(kDebugSaveEvery));
}

void AppendDebugFlags(const UserChoices& choices, LaunchLine& line) {
  if (!choices.job.debug || choices.trainer != Trainer::kHf || line.script.empty()) return;
  line.shell += " --max_steps " + std::to_string(IsProbe(choices.job) ? kProbeSteps : kDebugSteps) +
                " --save_steps " + std::to_string(kDebugSaveEvery) + " --dataloader_num_workers " +
                std::to_string(kDebugWorkers) +
                " --per_device_train_batch_size $LAUNCH_MICRO_BATCH"
                " --gradient_accumulation_steps $LAUNCH_GRAD_ACCUM";
  if (!choices.job.checkpoint.dir.empty()) line.shell += " --output_dir \"$LAUNCH_CHECKPOINT_DIR\"";
}

}  // namespace launch
