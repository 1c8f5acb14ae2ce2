// Whether a directory of torch.distributed.checkpoint is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/runner/checkpoint_files.h"

namespace launch::agent {

struct FileTimes {  // ns since 1970
  std::int64_t modified = 0;
  std::int64_t changed = 0;
  std::optional<std::int64_t> born;  // not every file system knows
};

// The metadata is written last, into a file of its own that takes the old one's place; shards are
// written into the files of the save before. A copy may come in any order; it makes each file anew,
// and mostly sets the time of the original, which then says nothing of when it was written here.
bool SavedOver(const FileTimes& metadata, const FileTimes& shard, std::int64_t clocks_apart);

// Empty = complete; else what is wrong with `directory`, whose sorted `entries` these are. `world`:
// the ranks of the job, each of which has metadata of its own where they saved without a word to
// each other.
std::string WhyDcpIncomplete(const std::filesystem::path& directory,
                             const std::vector<std::filesystem::path>& entries, int world,
                             ReadBudget* budget);

}  // namespace launch::agent
