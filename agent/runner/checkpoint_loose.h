// Files of torch.save that lie directly in a directory: which of them a script resumes from.
#pragma once

#include <cstdint>
#include <vector>

#include "common/launch.h"

namespace launch::agent {

struct LooseFile {
  CheckpointFound found;    // without its step
  std::uint64_t bytes = 0;  // its size
};

// Left out is what a script writes beside its checkpoints: optimizer, averages and weights of the
// best step, and of several files of each step all but one kind: the larger, then the commoner,
// then the one that was saved last. A step is what the names count; where they only hold numbers,
// unevenly spaced, and these grow against the times of the files, it is by time. A file without a
// number has the step of the newest numbered one that it is not older than. Of the files of all
// ranks the first is taken, once all are whole. `world`: the ranks of the job.
std::vector<CheckpointFound> ChooseLoose(std::vector<LooseFile> files, int world);

}  // namespace launch::agent
