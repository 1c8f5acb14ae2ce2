// Data loader settings that suit a rank's cores, its host memory and its device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/diagnosis.h"
#include "common/plan.h"
#include "planner/place/ranks.h"

namespace launch {

struct LoaderWish {
  DeviceClass device = DeviceClass::kCpu;
  std::optional<std::int64_t> asked;       // workers, by the user's own flag
  std::optional<std::uint64_t> shm_bytes;  // of the job's containers; absent: that of the hosts
  bool host_memory_was_short = false;      // a process was killed for want of it
};

struct LoaderChoice {
  LoaderPlan loader;
  std::vector<Finding> findings;  // loader_workers: why there are fewer, or asked for more than fit
};

// Workers: min(4, the rank's cores), bounded by host memory and by /dev/shm, through which workers
// pass their batches; none and nothing pinned on MPS. What the user wrote holds, with a
// notice where it may be too many.
LoaderChoice ChooseLoader(const LoaderWish& wish, const RankLayout& layout);

// The same once a process was killed for want of host memory: at most two workers, and no pinned
// memory, which is host memory too.
LoaderPlan AfterMemoryTrouble(LoaderPlan loader);

}  // namespace launch
