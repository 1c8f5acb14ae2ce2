// What the user has already decided, wherever it is written: the job file, the flags behind the
// script, the trainer's configuration file. A plan starts from these and never overrides them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "planner/line/deepspeed_config.h"
#include "planner/line/launch_line.h"
#include "planner/model/batch.h"
#include "planner/trainer/trainer_flags.h"

namespace launch {

struct UserChoices {
  // Said in the job itself, not by a flag of the line or a file.
  bool batch_asked = false;
  bool precision_asked = false;
  // Whether the script takes the flags of the Hugging Face trainer; absent: its text is not at
  // hand.
  std::optional<bool> hf_parser;
  JobSpec job;  // the job with strategy, offload, precision, batch and steps as fixed elsewhere
  bool weights_alone = false;  // DeepSpeed offloads parameters and leaves optimizer states
  TrainerFlags flags;
  std::optional<DeepspeedConfig> deepspeed;
  Trainer trainer = Trainer::kAuto;  // hf when the line shows it
  bool by_accelerate = false;        // the accelerate line itself says how the model is split
  BatchNames batch_names;            // of the file, where its global batch is the only one
  std::string precision_source;   // "ds.json", "--bf16"; empty when the job file or nobody says it
  std::vector<std::string> read;  // one sentence each, for `launch plan`
  std::vector<Finding> findings;
};

// The choices that somebody wrote down. kInvalidArgument: two places disagree (both are named, with
// their values), "auto" without a trainer that fills it in, or a configuration file that cannot be
// used.
Result<UserChoices> ReadWrittenChoices(const JobSpec& spec, const SubmitContext& context,
                                       const LaunchLine& line);

// The same, with what the trainer takes where nobody says anything, and a debug run's own settings.
Result<UserChoices> ReadUserChoices(const JobSpec& spec, const SubmitContext& context,
                                    const LaunchLine& line);

}  // namespace launch
