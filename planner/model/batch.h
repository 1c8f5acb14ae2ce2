// Batch arithmetic: global = micro x accumulate x world size, exactly.
#pragma once

#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "common/plan.h"

namespace launch {

// Contradictions that hold for every world size.
Result<void> CheckBatch(const BatchSpec& batch);

struct BatchChoice {
  BatchSplit split;
  std::vector<Finding> warnings;
};

// What the person who wrote the numbers calls them.
struct BatchNames {
  std::string global = "batch.global";
  std::string micro = "batch.micro";
  std::string accumulate = "batch.accumulate";
};

// Fills what the given numbers leave open. kInvalidArgument when no whole numbers fit; the hint
// offers the nearest choices that do.
Result<BatchChoice> SplitBatch(const BatchSpec& batch, int world_size,
                               const BatchNames& names = {});

}  // namespace launch
