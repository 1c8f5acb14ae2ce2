// What a plan predicts, for people: memory by phase, time, what a retry may change to, what if.
#pragma once

#include <string>

#include "common/plan.h"

namespace launch {

// "37.4GiB of 79.2GiB per GPU, 47 % (31.0GiB to 45.1GiB, cold)"; without a prediction what there
// is.
std::string MemoryLine(const Plan& plan);

// "5h12m (4h10m to 7h30m, cold); 0.71 s a step"; empty when nothing is known.
std::string DurationLine(const Plan& plan);

// Memory table (terms down, phases across, the limiting one marked), assumptions, fallbacks and
// changes, each under a heading; empty without a prediction. `width` as in FormatTable.
std::string ForecastText(const Plan& plan, int width);

}  // namespace launch
