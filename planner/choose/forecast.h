// Forecast: the model, the machines and the user's choices put together, and the plan chosen by
// predicted memory and time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/network_link.h"
#include "common/plan.h"
#include "planner/choose/choice.h"
#include "planner/place/ranks.h"
#include "planner/trainer/model_block.h"
#include "planner/trainer/user_choices.h"

namespace launch {

struct ForecastInput {
  const UserChoices& choices;
  const ModelInput& model;
  const RankLayout& layout;
  Precision precision = Precision::kBf16;
  std::optional<std::int64_t> steps;
  MemoryLessons lessons = {};
  std::vector<MeasuredPair> network = {};  // between nodes of the layout
};

struct Forecast {
  ChoiceInput input;  // what was asked of ChoosePlan; what-if rows change it
  Choice choice;
  bool batch_given = false;  // else memory is that of a micro-batch of one sample
  std::vector<std::string> assumptions;
};

// What ChoosePlan is asked for these machines; the answer is empty still.
Forecast PrepareForecast(const ForecastInput& input);

// Chooses. kCannotFit: no candidate fits, with the least memory that one would take and what would
// make it fit; a micro-batch and strategy that the user fixed are planned all the same, with a
// warning, unless it is the host's memory that lacks. kInvalidArgument as OptionsOf.
Result<Forecast> MakeForecast(const ForecastInput& input);

// Writes strategy, batch, memory, rejected and fallbacks of the plan.
void ApplyForecast(const Forecast& forecast, const ForecastInput& input, Plan& plan);
// The duration, once the number of steps follows from the chosen batch.
void ApplyDuration(const Forecast& forecast, const ForecastInput& input, Plan& plan);

}  // namespace launch
