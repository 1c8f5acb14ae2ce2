// What the planner is offered for one job: the nodes as they are, judged for the job's owner.
#pragma once

#include <vector>

#include "controller/core/effect.h"
#include "planner/planner.h"

namespace launch::controller {

// The offers refer to the inventories of `offers`. An agent that runs everything as one account
// takes the jobs of that account's user only (rulings 39): operators are no exception, for a job
// there would act as somebody else.
std::vector<PlannerOffer> ForPlanner(const std::vector<effect::NodeOffer>& offers,
                                     const UserName& owner);

// The same nodes as if they were empty; whether they answer is left as it is.
std::vector<PlannerOffer> WhenEmpty(std::vector<PlannerOffer> offers);

}  // namespace launch::controller
