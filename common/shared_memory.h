// What a job's processes take of /dev/shm, for the plan and for the check before a start.
#pragma once

#include <cstdint>

#include "common/units.h"

namespace launch {

// Bytes of /dev/shm that one loader worker needs: two batches, the usual prefetch factor, of small
// samples. Containers come with 64 MiB for all workers.
inline constexpr std::uint64_t kShmOfWorker = 256 * kMiB;
// Bytes of /dev/shm that NCCL's rings need between two ranks of a node.
inline constexpr std::uint64_t kShmOfNccl = 64 * kMiB;

}  // namespace launch
