// What each remedy against an out-of-memory error would give, as the planner foresaw it.
#pragma once

#include <string>

#include "common/diagnosis.h"
#include "common/job.h"
#include "common/plan.h"

namespace launch::controller {

// In the order in which they are tried (rulings 12); empty for a verdict that is none of GPU
// memory. Where the planner does not know the model, it says so instead of a number.
std::string EffectsOfRemedies(const JobSpec& spec, const Plan& failed, const Verdict& verdict);

}  // namespace launch::controller
