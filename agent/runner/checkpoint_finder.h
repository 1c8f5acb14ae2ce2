// Finds checkpoints below a directory and says which are complete, without loading any of them.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/launch.h"

namespace launch::agent {

struct CheckpointQuery {
  std::string directory;
  std::string marker;       // checkpoint.complete_marker; empty = judged by the format
  std::string format = {};  // the only one that counts, unless a marker does; empty or auto = any
  int world = 1;            // ranks of the job
  const std::atomic<bool>* cancel = nullptr;  // borrowed; ends the search early
};

// A directory may hold any number of files; the message that tells of them may not.
inline constexpr int kMaxCheckpoints = 1'000;

// Newest first: by step, then by time; of more than kMaxCheckpoints the newest ones, and the newest
// complete one in any case. What makes each format complete: checkpoint_formats.h.
std::vector<CheckpointFound> FindCheckpoints(const CheckpointQuery& query);

}  // namespace launch::agent
