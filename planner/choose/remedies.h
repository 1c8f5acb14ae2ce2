// What would make a run that does not fit into memory fit, in the order in which it is tried.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.h"
#include "planner/cost/memory_model.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

// Remedies against too little memory, in the order of trial: the first ones cost the least time and
// change the least.
enum class RemedyKind {
  kMicroBatch,     // fewer samples at once, more accumulation: the same global batch
  kPrecision,      // 16 bits instead of fp32
  kCheckpointing,  // activations computed again
  kStage,          // states divided among the ranks
  kOffload,        // states in host memory
};

struct RemedyInput {
  ModelCard card;
  TrainingSetup setup;          // of the run that does not fit
  std::int64_t accumulate = 1;  // micro-batches of one optimizer step
  double limit_bytes = 0;       // of one GPU
  double host_bytes = 0;        // of one node; 0 = unknown: offload is offered, unproved
};

struct Remedy {
  RemedyKind kind = RemedyKind::kMicroBatch;
  TrainingSetup setup;  // as the run would start with it; earlier remedies are not in it
  std::int64_t accumulate = 1;
  double bytes = 0;  // of one GPU, predicted
  FitVerdict fit = FitVerdict::kNo;
  friend bool operator==(const Remedy&, const Remedy&) = default;
};

// Every remedy that applies and lowers the prediction, in order of RemedyKind; of one kind the
// mildest that fits, else the strongest. micro x accumulate x ranks is the same in all of them.
// Errors as PredictMemory; kInvalidArgument for an accumulation below 1.
Result<std::vector<Remedy>> MemoryRemedies(const RemedyInput& input);

}  // namespace launch
