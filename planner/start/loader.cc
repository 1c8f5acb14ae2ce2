#include "planner/start/loader.h"

#include <algorithm>
#include <string>

#include "common/shared_memory.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr std::int64_t kMaxWorkers = 4;  // measured gains flatten there
constexpr int kWorkersAfterTrouble = 2;
constexpr std::uint64_t kWorkerBytes = kGiB;

struct Bound {
  std::int64_t workers = kMaxWorkers;
  std::string why;  // empty: nothing is too small
  std::string remedy;
};

void Lower(Bound& bound, std::uint64_t room, const NodeShare& share, std::string why,
           std::string remedy) {
  const std::uint64_t each = room / static_cast<std::uint64_t>(std::max(1, share.processes));
  if (each >= static_cast<std::uint64_t>(bound.workers)) return;
  bound = {static_cast<std::int64_t>(each), std::move(why), std::move(remedy)};
}

std::string ForRanks(const NodeShare& share) {
  return share.processes == 1 ? "one rank" : std::to_string(share.processes) + " ranks";
}

// How many workers a rank can have on the smallest of its nodes.
Bound RoomForWorkers(const LoaderWish& wish, const RankLayout& layout) {
  Bound bound;
  for (const NodeShare& share : layout.nodes) {
    const std::string& node = share.inventory->node.value;
    if (share.free_memory_bytes > 0) {  // else not known
      // Workers may take half of what is free; the trainer itself needs the rest.
      Lower(bound, share.free_memory_bytes / 2 / kWorkerBytes, share,
            node + " has " + FormatBytes(share.free_memory_bytes) + " of memory free for " +
                ForRanks(share) + ", half of it for workers of about " + FormatBytes(kWorkerBytes),
            "a node with more memory, or fewer ranks on it");
    }
    const std::uint64_t shm = wish.shm_bytes.value_or(share.inventory->shm_bytes);
    if (shm > 0) {
      const std::uint64_t nccl = share.processes > 1 ? kShmOfNccl : 0;
      Lower(bound, (shm - std::min(shm, nccl)) / kShmOfWorker, share,
            "/dev/shm on " + node + " has " + FormatBytes(shm) + " for " + ForRanks(share) +
                ", and a worker passes its batches through about " + FormatBytes(kShmOfWorker),
            "more of it: shm_size with image:, --ipc=host or --shm-size in a container of yours, "
            "else mount -o remount,size=50% /dev/shm");
    }
  }
  return bound;
}

Finding Notice(std::string says, std::string remedy) {
  return MakeFinding("loader_workers", Severity::kNotice, std::move(says), std::move(remedy));
}

std::string Workers(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " loader worker" : " loader workers");
}

}  // namespace

LoaderPlan AfterMemoryTrouble(LoaderPlan loader) {
  loader.num_workers = std::min(loader.num_workers, kWorkersAfterTrouble);
  loader.pin_memory = false;
  return loader;
}

LoaderChoice ChooseLoader(const LoaderWish& wish, const RankLayout& layout) {
  LoaderChoice choice;
  if (wish.device == DeviceClass::kMps && !wish.asked) return choice;
  const Bound bound = RoomForWorkers(wish, layout);
  const std::int64_t wanted = std::min<std::int64_t>(kMaxWorkers, layout.cpus_per_process);
  std::int64_t workers = std::min(wanted, bound.workers);
  if (wish.asked) {
    workers = std::min<std::int64_t>(*wish.asked, 1'000);
    if (workers > bound.workers && !bound.why.empty())
      choice.findings.push_back(Notice(
          Workers(workers) + " a rank, as the line says, may be too many: " + bound.why,
          bound.workers == 0 ? bound.remedy
                             : "at most " + Workers(bound.workers) + ", or " + bound.remedy));
  } else if (workers < wanted) {
    choice.findings.push_back(
        Notice(Workers(workers) + " a rank instead of " + std::to_string(wanted) + ": " + bound.why,
               bound.remedy));
  }
  choice.loader.num_workers = static_cast<int>(workers);
  choice.loader.pin_memory = wish.device == DeviceClass::kCuda;
  choice.loader.persistent_workers = workers > 0;
  if (wish.host_memory_was_short) choice.loader = AfterMemoryTrouble(choice.loader);
  if (wish.asked) choice.loader.num_workers = static_cast<int>(workers);
  return choice;
}

}  // namespace launch
