#include "planner/loader.h"

#include <algorithm>

#include "common/units.h"

namespace launch {
namespace {

constexpr int kMaxWorkers = 4;  // measured gains flatten there
constexpr std::uint64_t kWorkerBytes = kGiB;

}  // namespace

LoaderPlan AfterMemoryTrouble(LoaderPlan loader) {
  constexpr int kWorkersAfterTrouble = 2;
  loader.num_workers = std::min(loader.num_workers, kWorkersAfterTrouble);
  loader.pin_memory = false;
  return loader;
}

LoaderPlan PlanLoader(DeviceClass device, const RankLayout& layout) {
  LoaderPlan loader;
  if (device == DeviceClass::kMps) return loader;
  int workers = std::min(kMaxWorkers, layout.cpus_per_process);
  for (const NodeShare& share : layout.nodes) {
    if (share.free_memory_bytes == 0) continue;  // not known
    // Workers may take half of what is free; the trainer itself needs the rest.
    const std::uint64_t room = share.free_memory_bytes / 2 / kWorkerBytes /
                               static_cast<std::uint64_t>(std::max(1, share.processes));
    workers = std::min(workers, static_cast<int>(std::min<std::uint64_t>(room, kMaxWorkers)));
  }
  loader.num_workers = workers;
  loader.pin_memory = device == DeviceClass::kCuda;
  loader.persistent_workers = workers > 0;
  return loader;
}

}  // namespace launch
