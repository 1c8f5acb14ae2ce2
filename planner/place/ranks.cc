#include "planner/place/ranks.h"

#include <algorithm>

namespace launch {
namespace {

int CpusOf(const JobSpec& spec, const Demand& demand, const PlannerOffer& offer,
           const NodeShare& share) {
  const int cores = std::max(1, offer.inventory->cores);
  if (spec.cpus) return static_cast<int>(spec.cpus->value);
  if (demand.device == DeviceClass::kCpu) return std::min(share.processes, cores);
  const int devices = static_cast<int>(offer.inventory->gpus.size());
  const int fair = cores * static_cast<int>(share.gpus.size()) / std::max(1, devices);
  return std::clamp(fair, 1, std::max(1, offer.free_cpus));
}

// A CPU job that says nothing of cores reserves one for each process, so that it is always
// placeable, and may run on all that are free: alone on a node it is as fast as by
// hand. Elements of an array start side by side and keep to what they reserve.
int CpusOfProcess(const JobSpec& spec, const Demand& demand, const PlannerOffer& offer,
                  const NodeShare& share) {
  int cores = share.cpus;
  const bool alone = demand.device == DeviceClass::kCpu && !spec.cpus && !spec.element;
  if (alone) cores = std::max(cores, std::min(offer.free_cpus, offer.inventory->cores));
  return std::max(1, cores / std::max(1, share.processes));
}

}  // namespace

std::optional<std::uint64_t> MemoryLimitOn(const NodeInventory& node, const JobSpec& spec) {
  if (!spec.memory_bytes || spec.memory_bytes->at_least) return std::nullopt;
  if (node.coherent == CoherentMode::kNuma) return std::nullopt;
  return spec.memory_bytes->value;
}

RankLayout LayOutRanks(const JobSpec& spec, const Demand& demand,
                       const std::vector<PlannerOffer>& offers, const Placement& placement) {
  RankLayout layout;
  Rank next = 0;
  for (std::size_t i = 0; i < placement.offers.size(); ++i) {
    const PlannerOffer& offer = offers[placement.offers[i]];
    NodeShare share;
    share.inventory = offer.inventory;
    share.gpus = placement.gpus[i];
    share.processes = demand.procs_per_node.value_or(
        demand.device == DeviceClass::kCpu ? 1 : static_cast<int>(share.gpus.size()));
    if (demand.procs_per_core) {
      const int cores = spec.cpus ? static_cast<int>(spec.cpus->value) : offer.inventory->cores;
      share.processes = std::max(1, cores);
    }
    share.first_rank = next;
    share.cpus = CpusOf(spec, demand, offer, share);
    const int each = CpusOfProcess(spec, demand, offer, share);
    layout.cpus_per_process = i == 0 ? each : std::min(layout.cpus_per_process, each);
    share.free_memory_bytes = offer.free_memory_bytes;
    if (const auto limit = MemoryLimitOn(*offer.inventory, spec)) {
      share.free_memory_bytes =
          share.free_memory_bytes == 0 ? *limit : std::min(share.free_memory_bytes, *limit);
    }
    next += share.processes;
    layout.nodes.push_back(std::move(share));
  }
  layout.world_size = std::max(1, next);
  return layout;
}

bool SharesGpus(const NodeShare& share) {
  const std::size_t processes = static_cast<std::size_t>(std::max(1, share.processes));
  return !share.gpus.empty() && processes > share.gpus.size() && processes % share.gpus.size() == 0;
}

bool CannotDivideGpus(const NodeShare& share) {
  const std::size_t processes = static_cast<std::size_t>(std::max(1, share.processes));
  return !SharesGpus(share) &&
         (share.gpus.size() < processes || share.gpus.size() % processes != 0);
}

std::vector<int> GpusOfRank(const NodeShare& share, int local_rank) {
  const std::size_t processes = static_cast<std::size_t>(std::max(1, share.processes));
  if (SharesGpus(share)) {
    const std::size_t together = processes / share.gpus.size();
    return {share.gpus[static_cast<std::size_t>(local_rank) / together]};
  }
  if (CannotDivideGpus(share)) return share.gpus;
  const std::size_t each = share.gpus.size() / processes;
  const auto begin = share.gpus.begin() + static_cast<std::ptrdiff_t>(each) * local_rank;
  return {begin, begin + static_cast<std::ptrdiff_t>(each)};
}

}  // namespace launch
