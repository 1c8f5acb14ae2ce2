// Jobs that are done: how they ended, and how much of their time they trained.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/table.h"
#include "common/view.h"

namespace launch {

// Share of the time between the job's first start and its end that its steps took, 0 to 1: steps
// done x seconds per step / (ended - started). Absent where the job printed no progress or never
// ran. The rest went into starting, evaluation, checkpoints and steps that a retry did again.
std::optional<double> TrainedShare(const JobView& job);

// The job's GPUs times the hours from its first start to its end.
double GpuHours(const JobView& job);

// Whether the job, or the array that it is an element of, has this name: sw for sw_0, sw_1 ...
bool HasName(const JobView& job, std::string_view name);

Table HistoryTable(const std::vector<JobView>& jobs);
std::string HistoryJson(const std::vector<JobView>& jobs);

}  // namespace launch
