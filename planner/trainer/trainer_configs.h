// The files by which a plan reaches a trainer: ds_config.json and accelerate.yaml.
#pragma once

#include <string_view>
#include <vector>

#include "common/plan.h"
#include "planner/trainer/user_choices.h"

namespace launch {

inline constexpr std::string_view kDeepspeedFile = "ds_config.json";
inline constexpr std::string_view kAccelerateFile = "accelerate.yaml";

struct TrainerConfigs {
  std::vector<GeneratedFile> files;
  std::vector<Finding> findings;  // plan_cannot_reach_script
};

// ds_config.json for strategy zero1-3 unless the user brings a file of their own; accelerate.yaml
// for trainer: accelerate. Needs strategy, precision, batch, offload, processes and trainer of the
// plan. `hidden` is the model's width, 0 when it is not known.
TrainerConfigs MakeTrainerConfigs(const UserChoices& choices, const Plan& plan,
                                  std::int64_t hidden);

bool HasFile(const Plan& plan, std::string_view name);

// accelerate, and the Hugging Face trainer above it: they take their plugin from the environment
// and fill in the "auto" of a DeepSpeed file.
bool ByAccelerate(Trainer trainer);

// FULL_SHARD, SHARD_GRAD_OP or HYBRID_SHARD: FSDP's words, which accelerate uses too.
std::string_view FsdpSharding(Strategy strategy);

}  // namespace launch
