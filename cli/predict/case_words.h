// Words that the tables of memory and of throughput share.
#pragma once

#include <string>
#include <string_view>

#include "cli/predict/case_table.h"
#include "planner/model/training_setup.h"

namespace launch {

// A cell in lower case.
std::string Word(const CaseTable& table, std::size_t row, std::string_view column);

bool Has(const std::string& text, std::string_view part);

// The column act_ckpt: none, selective, selective layer, offload, or anything else for full.
Checkpointing CheckpointingOf(const std::string& word);

}  // namespace launch
