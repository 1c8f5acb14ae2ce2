// Whether a directory of torch.distributed.checkpoint is whole.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/runner/checkpoint_files.h"

namespace launch::agent {

// Empty = complete; else what is wrong with `directory`, whose sorted `entries` these are. `world`:
// the ranks of the job, each of which has metadata of its own where they saved without a word to
// each other.
std::string WhyDcpIncomplete(const std::filesystem::path& directory,
                             const std::vector<std::filesystem::path>& entries, int world,
                             ReadBudget* budget);

}  // namespace launch::agent
