// The choice of a plan: every candidate judged by memory and time, and the fastest that fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "planner/choose/candidates.h"
#include "planner/choose/memory_lessons.h"
#include "planner/cost/device_speed.h"
#include "planner/cost/memory_model.h"
#include "planner/cost/time_model.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

struct ChoiceInput {
  ModelCard card;
  // What does not differ between candidates: framework, optimizer, sequence, adapters, attention,
  // loss. Strategy, offload, ranks, micro-batch and checkpointing are overwritten.
  TrainingSetup setup;
  TimeSetup time;  // accumulate is overwritten
  Machine machine;
  RankShape shape;
  OptionLimits limits;
  double gpu_bytes = 0;                         // usable memory of the smallest GPU
  std::optional<ComputeCapability> capability;  // of the weakest GPU; absent = not known
  bool precision_is_open = false;               // the planner took it, by the capability
  bool pure_16_bit = false;                     // the script keeps no fp32 copy of anything
  std::optional<double> host_bytes;  // of the smallest node, for its ranks; absent = not known
  MemoryLessons lessons;             // of these ranks on these devices
};

enum class OptionVerdict {
  kChosen,
  kGpuMemory,   // GPU_MEM: does not fit
  kHostMemory,  // HOST_MEM: the host's memory does not hold what is offloaded or loaded
  kSlower,      // SLOWER: fits, and is predicted slower
  kNotSimpler,  // NOT_SIMPLER: as fast within 5 %, and less simple
  kOtherBatch,  // OTHER_BATCH: the same way with another micro-batch is taken
  kNoFormula,   // NO_FORMULA: sizes that no formula accepts
};

struct JudgedOption {
  PlanOption option;
  OptionVerdict verdict = OptionVerdict::kNoFormula;
  FitVerdict fit = FitVerdict::kNo;
  double decision_bytes = 0;  // what the fit was judged on
  bool measured = false;      // they were, by a probe or a run of this program
  double host_bytes = 0;
  std::optional<double> step_seconds;  // absent where memory already said no
  double score = 0;                    // time x (1 + risk)
  friend bool operator==(const JudgedOption&, const JudgedOption&) = default;
};

struct Choice {
  std::vector<JudgedOption> judged;      // in the order of OptionsOf
  std::optional<std::size_t> chosen;     // position in judged; absent: nothing fits
  std::optional<MemoryEstimate> memory;  // of the chosen one
  std::optional<TimeEstimate> time;
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Errors: those of OptionsOf; kCannotFit for a precision that the GPU lacks; kInvalidArgument or
// kFailedPrecondition of the models when no candidate can be predicted at all (no parameters, no
// shape, absurd sizes).
Result<Choice> ChoosePlan(const ChoiceInput& input);

// Makes the judged option at `position` the chosen one, whether it fits or not, with its memory
// and, where it can be told, its time.
Result<void> TakeOption(std::size_t position, const ChoiceInput& input, Choice& choice);

// The option that would take the least memory of a GPU; null when none has a prediction.
const JudgedOption* LeastMemory(const Choice& choice);

// The option that takes the least host memory of those that only a node's host memory keeps from
// fitting; null when there is none.
const JudgedOption* LeastHostMemory(const Choice& choice);

// The setup of one candidate, as the models are asked.
TrainingSetup SetupOf(const ChoiceInput& input, const PlanOption& option);

std::string_view CodeOf(OptionVerdict v);  // "GPU_MEM"

}  // namespace launch
