// What the planner is offered for one job: the nodes as they are, judged for the job's owner.
#pragma once

#include <optional>
#include <vector>

#include "controller/core/effect.h"
#include "controller/core/state.h"
#include "planner/planner.h"

namespace launch::controller {

// The offers refer to the inventories of `offers`. An agent that runs everything as one account
// takes the jobs of that account's user only: operators are no exception, for a job there would act
// as somebody else.
std::vector<PlannerOffer> ForPlanner(const std::vector<effect::NodeOffer>& offers,
                                     const UserName& owner);

// The same nodes as if they were empty; whether they answer is left as it is.
std::vector<PlannerOffer> WhenEmpty(std::vector<PlannerOffer> offers);

// Of a job that no known node could ever run.
Error NeverFits(const Unplaced& unplaced);

// Whether a job that was not placed, as `unplaced` says, still would not be after the end of all
// that runs, because GPUs that it needs are bad or quarantined. Says which and why; absent: it
// waits for what others hold. `offers` are those of MakeOffers.
std::optional<WaitReason> WaitsForRepair(const State& state, const Unplaced& unplaced,
                                         const JobSpec& spec, const Result<LineDemand>& line,
                                         const UserName& owner,
                                         const std::vector<effect::NodeOffer>& offers);

}  // namespace launch::controller
