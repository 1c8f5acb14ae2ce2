// What PyTorch's flight recorder left of the ranks of one directory.
#pragma once

#include <string>
#include <vector>

namespace launch::agent {

// How the recorder's files are called, followed by the number of the rank
// (planner/start/environment_table.cc: TORCH_NCCL_DEBUG_INFO_TEMP_FILE).
inline constexpr const char* kFlightFile = "nccl_trace_rank_";

// One line for each rank and process group in which it waits, and one for the group of all ranks;
// at most 32. Files that are cut off, no files or larger than 8 MiB are left out.
std::vector<std::string> FlightLinesIn(const std::string& directory);

}  // namespace launch::agent
