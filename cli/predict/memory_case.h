// One row of a memory table, as the planner's input.
#pragma once

#include <optional>

#include "cli/predict/case_table.h"
#include "common/error.h"
#include "planner/cost/memory_model.h"

namespace launch {

// Columns that hold the measured answer or where it was published; no program reads them.
const std::set<std::string>& MemoryAnswerColumns();

struct MemoryCase {
  ModelCard card;
  TrainingSetup setup;
  MemoryMetric metric = MemoryMetric::kProcess;
  bool unstated_figure = false;       // neither metric nor unit of the figure is known for sure
  bool assumed_batch = false;         // no sequence or no batch in the row
  std::optional<double> limit_bytes;  // usable memory of the GPU
};

// Words that are not known take the usual meaning, empty cells the usual value. Never looks at id
// and model. kInvalidArgument: numbers that cannot be (negative, absurd).
Result<MemoryCase> ReadMemoryCase(const CaseTable& table, std::size_t row);

struct MemoryAnswer {
  MemoryEstimate estimate;
  MemoryPeak peak;                 // in the metric and the unit of the row's figure
  std::optional<FitVerdict> fits;  // absent: the GPU's size is not known
};
Result<MemoryAnswer> AnswerMemoryCase(const MemoryCase& row, const MemoryConstants& constants);

}  // namespace launch
