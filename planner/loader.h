// Data loader settings that suit a rank's cores, its host memory and its device.
#pragma once

#include "common/plan.h"
#include "planner/ranks.h"

namespace launch {

// Rulings 13: min(4, the rank's cores) bounded by host memory; none and nothing pinned on MPS.
LoaderPlan PlanLoader(DeviceClass device, const RankLayout& layout);

// The same once a process was killed for want of host memory: at most two workers, and no pinned
// memory, which is host memory too.
LoaderPlan AfterMemoryTrouble(LoaderPlan loader);

}  // namespace launch
