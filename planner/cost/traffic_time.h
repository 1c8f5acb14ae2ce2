// Seconds that the traffic of a strategy takes: between GPUs, between nodes and to the host.
#pragma once

#include <cstdint>

#include "planner/cost/device_speed.h"
#include "planner/cost/time_constants.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

// Before any overlap with computation.
struct TrafficTime {
  double gather_micro = 0;  // weights gathered and gradients reduced in every micro-step
  double reduce_micro = 0;  // gradients reduced in every micro-step, under the backward pass
  double reduce_step = 0;   // gradients reduced once, under the last backward pass
  double after_step = 0;    // weights gathered after the optimizer: nothing hides it
  double fetch_micro = 0;   // offloaded weights from the host in every micro-step
  double host_micro = 0;    // gradients to the host in every micro-step
  double host_step = 0;     // optimizer on the host: transfer and CPU time
  bool crosses_nodes = false;
};

// Precondition: the setup was checked.
TrafficTime TrafficTimeOf(const ModelCard& card, const TrainingSetup& setup, Precision precision,
                          const Machine& machine, const TimeConstants& constants);

}  // namespace launch
