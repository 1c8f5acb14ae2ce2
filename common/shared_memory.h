// What a job's processes take of /dev/shm, for the plan and for the check before a start.
#pragma once

#include <cstdint>

#include "common/units.h"

namespace launch {

// Of one loader worker: two batches, the usual prefetch factor, of small samples. Containers come
// with 64 MiB for all of them.
inline constexpr std::uint64_t kShmOfWorker = 256 * kMiB;
// Of NCCL's rings between two ranks of a node.
inline constexpr std::uint64_t kShmOfNccl = 64 * kMiB;

}  // namespace launch
