// What the driver says of the processes on each GPU, and when it was asked.
#pragma once

#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/inventory.h"

namespace launch::agent {

using GpuProcessList = std::vector<std::pair<GpuUuid, std::vector<GpuProcess>>>;

struct GpuProcessSnapshot {
  BootTime asked{};  // before the answer was made: nothing older than this is in it
  GpuProcessList lists;
};

}  // namespace launch::agent
