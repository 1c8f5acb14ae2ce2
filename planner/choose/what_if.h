// "What would change if": the plan chosen again with one thing of the job or the cluster different.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/plan.h"
#include "planner/choose/forecast.h"
#include "planner/planner.h"

namespace launch {

// The changes people try first: a GPU more or fewer, half and double, twice the sequence,
// recomputation, offload, an 8-bit optimizer, of a mixed job each class of its GPUs alone, the
// other GPU classes of `offers`. Only those that change the strategy, or time or memory by more
// than 5 %.
std::vector<Change> UsualChanges(const Forecast& forecast, const ForecastInput& input,
                                 const std::vector<PlannerOffer>& offers);

// The row of a change such as "nodes=4,seq_len=8192", with all of it at once, in the words of
// planner/choose/change_words.h.
Result<Change> AskedChange(std::string_view text, const Forecast& forecast,
                           const ForecastInput& input);

// Rows that say why nothing is answered: no model, or a device that nothing is predicted for. The
// questions are read all the same; errors as AskedChange.
Result<std::vector<Change>> UnansweredChanges(const std::vector<std::string>& questions,
                                              DeviceClass device);

// What ChoosePlan is asked then; errors as AskedChange.
Result<ChoiceInput> ChangedInput(std::string_view text, const Forecast& forecast);

}  // namespace launch
