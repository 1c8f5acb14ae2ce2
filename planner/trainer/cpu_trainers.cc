#include "planner/trainer/cpu_trainers.h"

#include <string>

#include "planner/line/accelerate_settings.h"
#include "planner/model/strategy.h"
#include "planner/trainer/hf_flags.h"
#include "planner/trainer/trainer_configs.h"

namespace launch {

bool TrainsByDeepspeed(const UserChoices& choices, const LaunchLine& line, const Plan& plan) {
  return ZeroStage(plan.strategy) > 0 || choices.flags.deepspeed.has_value() ||
         (line.accelerate && KindOf(*line.accelerate) == AccelerateKind::kDeepspeed);
}

// accelerate 1.15, state.py: FSDP is a kind of the ranks of GPUs. Of ranks without a GPU it forms a
// world only where it is told to use the CPU, and in that world it has no DeepSpeed, but where the
// trainer tells it apart from ACCELERATE_USE_CPU (transformers 5, TrainingArguments.use_cpu).
Result<void> CheckCpuTrainer(const UserChoices& choices, const LaunchLine& line, const Plan& plan) {
  if (plan.device != DeviceClass::kCpu || !ByAccelerate(choices.trainer)) return {};
  const bool hf = choices.trainer == Trainer::kHf;
  const std::string who = hf ? "the Hugging Face trainer" : "accelerate";
  if (IsFsdp(plan.strategy)) {
    return Fail(ErrorCode::kCannotFit,
                "strategy " + std::string(ToString(plan.strategy)) + " on the CPU: " + who +
                    " has FSDP for GPUs only, and its ranks would train without it",
                "write strategy: ddp, or give the job GPUs; a script that calls torch's "
                "fully_shard itself needs no trainer:");
  }
  if (plan.world_size == 1 || !TrainsByDeepspeed(choices, line, plan)) return {};
  if (!hf) {
    return Fail(ErrorCode::kCannotFit,
                "DeepSpeed on the CPU: accelerate forms no world of several ranks there, and each "
                "would train on all of the data",
                "write strategy: ddp, procs_per_node: 1 or give the job GPUs; the Hugging Face "
                "trainer (trainer: hf) and deepspeed.initialize() take several");
  }
  if (TakesHfFlags(choices, line) || choices.flags.names.contains("use_cpu")) return {};
  return Fail(ErrorCode::kCannotFit,
              "DeepSpeed on the CPU: the ranks of the Hugging Face trainer form a world there with "
              "--use_cpu True only, and launch is not sure that the script takes it",
              "write --use_cpu True behind the script in run itself; with trainer: hf launch adds "
              "it there");
}

std::optional<Finding> UnseenCpuTrainer(const UserChoices& choices, const LaunchLine& line,
                                        const Plan& plan) {
  const bool unseen = plan.device == DeviceClass::kCpu && plan.world_size > 1 && line.deepspeed &&
                      !ByAccelerate(choices.trainer);
  if (!unseen || line.shell.find("use_cpu") != std::string::npos) return std::nullopt;
  return MakeFinding("plan_cannot_reach_script", Severity::kWarning,
                     "the script inside run takes " + line.deepspeed->name +
                         ": if it uses the Hugging Face trainer, its ranks form a world on the CPU "
                         "with --use_cpu True only, and each would train on all of the data",
                     "write --use_cpu True behind that script");
}

}  // namespace launch
