// A node as the planner may see it: what is free there.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "common/planted.h"
#include "controller/core/state.h"

namespace launch::controller {
namespace {

// Of one node, what jobs have that do not run there: those whose plan is being made, and those that
// keep their place until they start again.
struct Reserved {
  std::set<GpuUuid> gpus;
  int cpus = 0;
  std::uint64_t memory_bytes = 0;
};

// By node, in one walk over the jobs: there may be as many of them as nodes.
std::map<NodeId, Reserved> ReservedNodes(const State& state, JobId own) {
  std::map<NodeId, Reserved> nodes;
  for (const auto& [job, hold] : state.live.holds) {
    for (std::size_t i = 0; i < hold.nodes.size(); ++i) {
      Reserved& reserved = nodes[hold.nodes[i]];
      reserved.gpus.insert(hold.gpus[i].begin(), hold.gpus[i].end());
      reserved.cpus += hold.cpus[i];
      reserved.memory_bytes += hold.memory_bytes;
    }
  }
  for (const JobId job : state.keepers) {
    // With a hold: that stands for it.
    if (job == own || state.live.holds.contains(job) || Planted(Bug::kOfferedPlace)) continue;
    const auto allocs = state.allocs.find(Key{job, Attempt{state.jobs.at(job).keeps}});
    if (allocs == state.allocs.end()) continue;
    for (const auto& [node, alloc] : allocs->second) {
      if (!IsReleased(alloc)) continue;  // the node holds it: counted there
      Reserved& reserved = nodes[node];
      reserved.gpus.insert(alloc.gpus.begin(), alloc.gpus.end());
      reserved.cpus += alloc.cpus;
      reserved.memory_bytes += alloc.memory_bytes;
    }
  }
  return nodes;
}

// More than a driver and a desktop take. No job of ours has the GPU, so it is somebody else's, whom
// the agent may not see: in another container, or of another user.
bool IsCrowded(const GpuDevice& gpu, const std::vector<GpuSample>& samples) {
  const auto sample = std::ranges::find(samples, gpu.uuid, &GpuSample::uuid);
  return sample != samples.end() && sample->used_bytes.value_or(0) > gpu.memory_bytes / 10;
}

effect::NodeOffer OfferOf(const State& state, const NodeId& node,
                          const std::map<NodeId, Reserved>& reserved) {
  static const Reserved kNothing;
  const auto entry = reserved.find(node);
  const Reserved& kept = entry == reserved.end() ? kNothing : entry->second;
  const std::shared_ptr<const NodeInventory>& inventory = state.inventories.at(node);
  int cpus = kept.cpus;
  std::uint64_t memory_bytes = kept.memory_bytes;
  if (const auto held = state.held_by_node.find(node); held != state.held_by_node.end()) {
    for (const Key& key : held->second) {
      const AllocRecord& alloc = state.allocs.at(key).at(node);
      cpus += alloc.cpus;
      memory_bytes += alloc.memory_bytes;
    }
  }
  const auto live = state.live.nodes.find(node);
  const auto is_busy = [&](const GpuUuid& gpu) {
    return live != state.live.nodes.end() && live->second.busy_gpus.contains(gpu);
  };
  effect::NodeOffer offer;
  offer.inventory = inventory;
  for (std::size_t i = 0; i < inventory->gpus.size(); ++i) {
    const GpuDevice& gpu = inventory->gpus[i];
    if (gpu.health == Health::kBad || state.gpu_owner.contains(gpu.uuid) ||
        state.quarantine.contains(gpu.uuid) || kept.gpus.contains(gpu.uuid) || is_busy(gpu.uuid)) {
      continue;
    }
    offer.free_gpus.push_back(static_cast<int>(i));
    if (live != state.live.nodes.end() && IsCrowded(gpu, live->second.samples))
      offer.crowded_gpus.push_back(static_cast<int>(i));
  }
  offer.free_cpus = std::max(0, inventory->cores - cpus);
  offer.free_memory_bytes =
      memory_bytes < inventory->memory_bytes ? inventory->memory_bytes - memory_bytes : 0;
  offer.schedulable = IsSchedulable(state, node);
  if (const auto record = state.nodes.find(node); record != state.nodes.end()) {
    offer.account = record->second.account;
    offer.links = record->second.links;
  }
  return offer;
}

}  // namespace

effect::NodeOffer MakeOffer(const State& state, const NodeId& node) {
  return OfferOf(state, node, ReservedNodes(state, {}));
}

std::vector<effect::NodeOffer> MakeOffers(const State& state, JobId own) {
  const std::map<NodeId, Reserved> reserved = ReservedNodes(state, own);
  std::vector<effect::NodeOffer> offers;
  offers.reserve(state.inventories.size());
  for (const auto& [node, inventory] : state.inventories)
    offers.push_back(OfferOf(state, node, reserved));
  return offers;
}

void RemakeOffers(const State& state, const std::vector<NodeId>& nodes,
                  std::vector<effect::NodeOffer>& offers) {
  const std::map<NodeId, Reserved> reserved = ReservedNodes(state, {});
  for (effect::NodeOffer& offer : offers) {
    const NodeId& node = offer.inventory->node;
    if (std::ranges::find(nodes, node) != nodes.end()) offer = OfferOf(state, node, reserved);
  }
}

}  // namespace launch::controller
