// Candidates: every way to run a job that its trainer and its batch allow, before any is judged.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/error.h"
#include "common/job.h"
#include "planner/model/training_setup.h"

namespace launch {

struct PlanOption {
  Strategy strategy = Strategy::kSingle;
  Offload offload = Offload::kNone;
  Checkpointing checkpointing = Checkpointing::kNone;
  std::int64_t micro = 1;
  std::int64_t accumulate = 1;
  friend bool operator==(const PlanOption&, const PlanOption&) = default;
};

// What the job's author fixed, and what the trainer can do. Absent = free.
struct OptionLimits {
  std::optional<Strategy> strategy;
  std::optional<Offload> offload;
  std::optional<Checkpointing> checkpointing;
  BatchSpec batch;
  bool can_shard = true;       // false: a plain script, single or DDP only
  bool can_checkpoint = true;  // recomputation is offered where it is free
  bool can_accumulate = true;  // false: the optimizer steps within the backward pass
};

// Processes of a run: `per_node` on each node but, perhaps, the last.
struct RankShape {
  int ranks = 1;
  int per_node = 1;
};

// All options in a fixed order, from the simplest: by strategy, offload, checkpointing,
// micro-batch. With `batch.global` every option has micro x accumulate x ranks = global exactly;
// without it the micro-batch is the given one, or powers of two up to 1,024. kInvalidArgument: no
// whole numbers fit (the hint offers the nearest that do), or the fixed choices contradict one
// another.
Result<std::vector<PlanOption>> OptionsOf(const OptionLimits& limits, const RankShape& shape);

// Do they differ in their micro-batch alone?
bool SameWay(const PlanOption& a, const PlanOption& b);

// Order of simplicity, for ties: smaller is simpler; micro-batches of one way are equal.
int ComplexityOf(const PlanOption& option);

}  // namespace launch
