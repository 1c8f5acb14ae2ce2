// Time of one optimizer step, predicted before anything ran: named terms that add up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "planner/cost/device_speed.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

enum class TimeKind { kCompute, kMemory, kKernelStart, kLinks, kNetwork, kHostLink, kLoader };

struct TimeTerm {
  std::string name;  // "matrix products", "attention", "gathered weights" ...
  TimeKind kind = TimeKind::kCompute;
  double seconds = 0;  // of one optimizer step; never negative, zero terms are left out
  friend bool operator==(const TimeTerm&, const TimeTerm&) = default;
};

// What decides time and not memory.
struct TimeSetup {
  Precision precision = Precision::kBf16;  // of matrix products; never kAuto
  std::int64_t accumulate = 1;
  bool tuned_code = false;  // fused kernels and no Python between them; framework and compile tell
};

struct TimeEstimate {
  std::vector<TimeTerm> terms;  // their sum is step_seconds
  double step_seconds = 0;
  double low = 0;  // of step_seconds
  double high = 0;
  double tokens_per_second_per_gpu = 0;
  double samples_per_second = 0;        // of the whole run
  TimeKind bound = TimeKind::kCompute;  // what most of the time goes to
  std::vector<std::string> assumptions;
  friend bool operator==(const TimeEstimate&, const TimeEstimate&) = default;
};

// Predicts the time of one step. kInvalidArgument: a setup or card that CheckSetup or CheckCard
// refuses, accumulate outside 1 .. 1e9. kFailedPrecondition: the card has no shape, so that no
// formula knows the time; measure.
Result<TimeEstimate> PredictTime(const ModelCard& card, const TrainingSetup& setup,
                                 const TimeSetup& time, const Machine& machine,
                                 const TimeConstants& constants = {});

// Whether the framework's own code is tuned in the sense of TimeSetup.
bool IsTuned(Framework framework, bool compiled);

std::string_view ToString(TimeKind v);  // "compute", "memory bandwidth", "network" ...

}  // namespace launch
