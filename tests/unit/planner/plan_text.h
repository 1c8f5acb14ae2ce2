// A plan as text for golden files: everything in it, in one order.
#pragma once

#include <string>

#include "planner/planner.h"

namespace launch::testing {

std::string PlanText(const PlannedRun& run);     // without environments
std::string RankEnvText(const PlannedRun& run);  // the environment of every rank

// Compares with tests/golden/NAME; UPDATE_GOLDEN=1 in the environment writes it instead.
void ExpectGolden(const std::string& name, const std::string& text);

}  // namespace launch::testing
