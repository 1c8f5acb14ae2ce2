// What each remedy against an out-of-memory error would give, as the planner foresaw it.
#pragma once

#include <string>

#include "common/diagnosis.h"
#include "common/job.h"
#include "common/plan.h"
#include "controller/core/record.h"

namespace launch::controller {

// What each remedy would save, in the order in which they are tried, without what `failed` has
// already; empty for a verdict that is not about GPU memory. `so_far` holds the plans of less
// memory that are left of earlier attempts. Where the planner does not know the model, it says so
// instead of a number.
std::string EffectsOfRemedies(const JobSpec& spec, const Plan& failed, const PlanChange& so_far,
                              const Verdict& verdict);

}  // namespace launch::controller
