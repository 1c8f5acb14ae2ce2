#include "planner/trainer/trainer_configs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/cost/memory_parts.h"
#include "planner/line/deepspeed_config.h"
#include "planner/model/strategy.h"
#include "planner/trainer/hf_flags.h"
#include "planner/trainer/model_block.h"

namespace launch {
namespace {

GeneratedFile DeepspeedFile(const UserChoices& choices, const Plan& plan, std::int64_t hidden) {
  DeepspeedPlan file;
  file.stage = ZeroStage(plan.strategy);
  file.offload = plan.offload;
  file.precision = plan.precision;
  file.micro = *plan.batch.micro;
  file.accumulate = *plan.batch.accumulate;
  file.global = *plan.batch.global;
  file.hidden = hidden;
  // Under DeepSpeed the engine clips, not the trainer, and both must say the same.
  if (plan.trainer == Trainer::kHf) {
    const auto& clipping = choices.flags.gradient_clipping;
    file.gradient_clipping = clipping ? clipping->value : kHfGradientClipping;
  }
  file.bucket = UsualBucket(FrameworkOf(plan.trainer), {});  // as the memory model reckons
  return {std::string(kDeepspeedFile), WriteDeepspeedConfig(file)};
}

std::string_view DistributedType(const Plan& plan) {
  if (ZeroStage(plan.strategy) > 0) return "DEEPSPEED";
  if (IsFsdp(plan.strategy)) return "FSDP";
  if (plan.device == DeviceClass::kMps) return "MPS";
  if (plan.world_size == 1) return "NO";
  return plan.device == DeviceClass::kCuda ? "MULTI_GPU" : "MULTI_CPU";
}

// The words of accelerate's own files (accelerate/commands/config/config_args.py).
GeneratedFile AccelerateFile(const Plan& plan) {
  const bool fp32 = IsFullWidth(plan.precision);
  std::string text = "compute_environment: LOCAL_MACHINE\n";
  const auto add = [&text](std::string_view key, std::string_view value) {
    text += std::string(key) + ": " + std::string(value) + "\n";
  };
  add("distributed_type", DistributedType(plan));
  add("mixed_precision", fp32 ? "'no'" : ToString(plan.precision));
  add("num_machines", std::to_string(plan.world_size / std::max(1, plan.processes.per_node)));
  add("num_processes", std::to_string(plan.world_size));
  // With it accelerate leaves DeepSpeed aside.
  const bool use_cpu = plan.device == DeviceClass::kCpu && ZeroStage(plan.strategy) == 0;
  add("use_cpu", use_cpu ? "true" : "false");
  if (ZeroStage(plan.strategy) > 0) {
    const bool all = plan.offload == Offload::kAll;
    text += "deepspeed_config:\n";
    add("  zero_stage", std::to_string(ZeroStage(plan.strategy)));
    if (plan.batch.accumulate) {
      add("  gradient_accumulation_steps", std::to_string(*plan.batch.accumulate));
    }
    add("  offload_optimizer_device", plan.offload == Offload::kNone ? "none" : "cpu");
    add("  offload_param_device", all ? "cpu" : "none");
    add("  zero3_init_flag", plan.strategy == Strategy::kZero3 ? "true" : "false");
  }
  if (IsFsdp(plan.strategy)) {
    text += "fsdp_config:\n";
    add("  fsdp_sharding_strategy", FsdpSharding(plan.strategy));
    add("  fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    add("  fsdp_offload_params", plan.offload == Offload::kNone ? "false" : "true");
    add("  fsdp_state_dict_type", "SHARDED_STATE_DICT");
    add("  fsdp_use_orig_params", "true");
    add("  fsdp_activation_checkpointing", plan.checkpointing == "full" ? "true" : "false");
  }
  return {std::string(kAccelerateFile), std::move(text)};
}

}  // namespace

TrainerConfigs MakeTrainerConfigs(const UserChoices& choices, const Plan& plan,
                                  std::int64_t hidden) {
  TrainerConfigs configs;
  const bool own = choices.flags.deepspeed.has_value() || choices.by_accelerate ||
                   choices.flags.fsdp.has_value();
  if (ZeroStage(plan.strategy) > 0 && !own) {
    if (plan.batch.global && plan.batch.micro && plan.batch.accumulate) {
      configs.files.push_back(DeepspeedFile(choices, plan, hidden));
    } else {
      configs.findings.push_back(
          MakeFinding("plan_cannot_reach_script", Severity::kWarning,
                      "no ds_config.json is written: DeepSpeed wants the batch in it, and the job "
                      "gives none",
                      "write batch: {global: N, micro: M}"));
    }
  }
  if (plan.trainer == Trainer::kAccelerate) configs.files.push_back(AccelerateFile(plan));
  return configs;
}

bool HasFile(const Plan& plan, std::string_view name) {
  return std::any_of(plan.files.begin(), plan.files.end(),
                     [&](const GeneratedFile& file) { return file.name == name; });
}

bool ByAccelerate(Trainer trainer) {
  return trainer == Trainer::kHf || trainer == Trainer::kAccelerate;
}

std::string_view FsdpSharding(Strategy strategy) {
  switch (strategy) {
    case Strategy::kFsdpGradOp:
      return "SHARD_GRAD_OP";
    case Strategy::kFsdpHybrid:
      return "HYBRID_SHARD";
    default:
      return "FULL_SHARD";
  }
}

}  // namespace launch
