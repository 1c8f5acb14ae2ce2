// Seconds one GPU computes for one micro-batch, apart from everything it waits for.
#pragma once

#include "planner/cost/device_speed.h"
#include "planner/cost/time_constants.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

struct ComputeTime {     // seconds of one micro-step unless said otherwise
  double products = 0;   // matrix products of blocks and head
  double attention = 0;  // fused kernels, or products and scores of eager attention
  double elementwise = 0;
  double logits = 0;
  double starting = 0;              // CPU time of starting the kernels: a floor, not an addition
  double backward_share = 2.0 / 3;  // of the micro-step, where gradients are reduced
  double optimizer_bytes = 0;       // per trainable parameter in a step
};

// Precondition: the card has a shape, the setup was checked.
ComputeTime ComputeTimeOf(const ModelCard& card, const TrainingSetup& setup, Precision precision,
                          bool tuned, const GpuFigures& gpu, const TimeConstants& constants);

}  // namespace launch
