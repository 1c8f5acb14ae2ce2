// The model of a job and how it is trained, from its `model:` block, a configuration file and the
// trainer's own flags: what the memory and time formulas start from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/job.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"
#include "planner/trainer/user_choices.h"

namespace launch {

struct ModelInput {
  ModelCard card;                        // completed
  TrainingSetup setup;                   // strategy, ranks and micro-batch are left to the plan
  bool checkpointing_fixed = false;      // the user said so: no candidate may change it
  bool pure_16_bit = false;              // weights and states have no fp32 copy
  std::vector<std::string> assumptions;  // sentences
};

// The model that the job describes; absent: it says nothing about it. kInvalidArgument names the
// field or the file.
Result<std::optional<ModelInput>> ReadModel(const UserChoices& choices,
                                            const SubmitContext& context);

// Whose code computes, as far as the trainer tells.
Framework FrameworkOf(Trainer trainer);

}  // namespace launch
