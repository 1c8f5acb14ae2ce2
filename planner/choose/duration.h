// How many optimizer steps a job makes, and how long the run takes.
#pragma once

#include <cstdint>
#include <optional>

#include "common/job.h"
#include "common/plan.h"

namespace launch {

// `steps:`, or the data set in whole batches per epoch: 2,500 samples, 3 epochs, global 64 -> 120.
std::optional<std::int64_t> StepsOf(const JobSpec& spec, const BatchSplit& batch);

// Seconds of one optimizer step, and how they are known.
struct StepSeconds {
  double value = 0;
  double low = 0;
  double high = 0;
  Basis basis = Basis::kCold;
};

// How long the steps take, without start-up, evaluation and checkpoints; empty when their number is
// not known.
DurationForecast DurationOf(std::optional<std::int64_t> steps, const StepSeconds& step);

}  // namespace launch
