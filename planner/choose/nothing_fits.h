// The refusal of a job that fits nowhere: what it would need, and what would make it fit.
#pragma once

#include "common/error.h"
#include "planner/choose/forecast.h"

namespace launch {

// The error kCannotFit for a job of which no plan fits: GPU_MEM or HOST_MEM with the least that a
// plan would take; the hint lists what would fit, each with its predicted memory: remedies that
// keep the batch, then an 8-bit optimizer, adapters, half the sequence, twice the GPUs.
Unexpected NothingFits(const Forecast& forecast, const ForecastInput& input);

}  // namespace launch
