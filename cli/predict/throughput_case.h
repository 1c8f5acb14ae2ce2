// One row of a throughput table as inputs of the time model.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "cli/predict/case_table.h"
#include "common/error.h"
#include "planner/cost/device_speed.h"
#include "planner/cost/time_model.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

// Measured columns and names: no prediction may look at them.
const std::set<std::string>& ThroughputColumnsNeverRead();

struct ThroughputCase {
  ModelCard card;
  TrainingSetup setup;
  TimeSetup time;
  Machine machine;
};

// Empty cells and words that are not known become usual values: a row of a table of trained models
// is always predicted as well as it can be. Errors only where neither parameters nor a shape
// are stated, and for absurd sizes.
Result<ThroughputCase> ReadThroughputCase(const CaseTable& table, std::size_t row);

}  // namespace launch
