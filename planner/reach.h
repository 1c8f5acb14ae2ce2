// What a plan cannot change in the user's script: said instead of hidden.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "common/plan.h"
#include "planner/line/launch_line.h"

namespace launch {

// Devices, batch or precision written into the command (plan_cannot_reach_script).
std::vector<Finding> HardCoded(const JobSpec& spec, const LaunchLine& line,
                               const std::map<std::string, std::string>& files, const Plan& plan);

// Checks the LAUNCH_ variables in `run`: kInvalidArgument for one that no rank gets.
Result<void> CheckVariablesUsed(const LaunchLine& line, const Plan& plan);

// A finding about other variables in `run` that nothing sets. An image may have variables of its
// own.
std::optional<Finding> VariablesUnset(const JobSpec& spec, const Plan& plan);

enum class BatchReach {
  kFollows,  // the command passes both of our variables on or the DeepSpeed file that has them, its
             // script reads them, or it gets the flags of the Hugging Face trainer from us
  kUnknown,  // nothing is written; a program may read the variables by itself
  kFixed,    // the command has a number of its own, or a file that it names
};

// What of a plan would get to the program if it were changed.
struct PlanReach {
  BatchReach batch = BatchReach::kUnknown;
  std::string batch_place = "the command";  // that fixes it
  bool strategy = false;                    // and offload
  bool checkpointing = false;
  bool precision = false;
  bool workers = false;  // of the data loader
};

// `context` has the text of the files that the line names.
PlanReach ReachOf(const JobSpec& spec, const SubmitContext& context, const Plan& plan);

}  // namespace launch
