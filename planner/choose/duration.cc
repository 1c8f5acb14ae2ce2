#include "planner/choose/duration.h"

#include <cmath>

namespace launch {

std::optional<std::int64_t> StepsOf(const JobSpec& spec, const BatchSplit& batch) {
  if (spec.steps) return spec.steps;
  if (!spec.dataset || spec.dataset->samples <= 0 || !batch.global) return std::nullopt;
  const std::int64_t per_epoch = (spec.dataset->samples + *batch.global - 1) / *batch.global;
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(per_epoch) * spec.dataset->epochs - 1e-9));
}

DurationForecast DurationOf(std::optional<std::int64_t> steps, const StepSeconds& step) {
  DurationForecast forecast;
  if (!steps || *steps <= 0 || !(step.value > 0)) return forecast;
  const double count = static_cast<double>(*steps);
  forecast.seconds = count * step.value;
  forecast.low = count * step.low;
  forecast.high = count * step.high;
  forecast.basis = step.basis;
  return forecast;
}

}  // namespace launch
