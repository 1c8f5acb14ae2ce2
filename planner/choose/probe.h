// What a probe measured, and a plan with the measured parts in place of the predicted ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/plan.h"

namespace launch {

// Two micro-batches give a line each for memory and for the time of one pass.
struct ProbeFit {
  double load_bytes = 0;
  double base_bytes = 0;
  double sample_bytes = 0;  // per sample of the micro-batch
  double pass_seconds = 0;
  double sample_seconds = 0;
  double loader_share = 0;  // of a step that waits for the data loader
  bool gpu = false;
  friend bool operator==(const ProbeFit&, const ProbeFit&) = default;
};

// A line through the smallest and the largest measured micro-batch; for one alone, through what
// stays allocated after a step. Absent: nothing was measured.
std::optional<ProbeFit> FitProbe(const std::vector<ProbePoint>& points);

// Memory of the plan's micro-batch (of one sample when it has none) and time of its step, as
// measured; context and communication library stay predicted, torch does not count them. A duration
// that the job's own history gave stays: the probe is no whole run. Findings follow.
void ApplyProbe(const std::vector<ProbePoint>& points, Plan& plan);

}  // namespace launch
