#include "controller/core/node_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.h"
#include "controller/core/gpu_watch.h"
#include "diagnosis/xid.h"

namespace launch::controller {
namespace {

constexpr std::size_t kMostXids = 32;  // of one GPU in one attempt
// The rank speaks after its steps, once a second at most: a word that is older is no new one, and
// would look like a level that was reached.
constexpr std::int64_t kFreshMs = 2'000;

void NoteFaults(Draft& draft, const Key& key, const NodeId& node, const GpuSample& sample,
                GpuSeen& seen) {
  for (const int xid : sample.xids) {
    const bool known = std::ranges::find(seen.xids, xid) != seen.xids.end();
    if (seen.xids.size() < kMostXids) seen.xids.push_back(xid);
    if (known) continue;
    const XidMeaning meaning = MeaningOfXid(xid);
    draft.Event("gpu.xid", Subject(node),
                fmt::format("{}: Xid {}{}{}, while {} had it", sample.uuid.value, xid,
                            meaning.says.empty() ? "" : ": ", meaning.says, ToString(key)));
  }
  if (!sample.ecc_uncorrected) return;
  if (!seen.ecc_first) seen.ecc_first = sample.ecc_uncorrected;
  seen.ecc_last = sample.ecc_uncorrected;
}

// GPUs of one rank, or of its whole allocation where the plan is not there any more.
std::vector<GpuUuid> GpusOf(const State& state, const Key& key, const RankRecord& rank) {
  if (const auto plan = state.plans.find(key); plan != state.plans.end()) {
    for (const PlannedAllocation& allocation : plan->second->allocations) {
      if (allocation.spec.node != rank.node) continue;
      for (const RankSpec& spec : allocation.spec.ranks) {
        if (spec.rank == rank.rank && !spec.gpus.empty()) return spec.gpus;
      }
    }
  }
  const AllocRecord* alloc = FindAlloc(state, key, rank.node);
  return alloc == nullptr ? std::vector<GpuUuid>{} : alloc->gpus;
}

// Of the smallest of its GPUs; 0: not known.
std::uint64_t CardOf(const State& state, const Key& key, const RankRecord& rank) {
  const NodeInventory* inventory = InventoryOf(state, rank.node);
  std::uint64_t smallest = 0;
  if (inventory == nullptr) return smallest;
  for (const GpuUuid& gpu : GpusOf(state, key, rank)) {
    const auto device = std::ranges::find(inventory->gpus, gpu, &GpuDevice::uuid);
    if (device == inventory->gpus.end()) continue;
    if (smallest == 0 || device->memory_bytes < smallest) smallest = device->memory_bytes;
  }
  return smallest;
}

std::optional<MemoryGrowth> GrowthOf(const State& state, const Key& key, const RankRecord& rank,
                                     const LayerWatch& watch) {
  const auto forecast = watch.trend.Foresee(CardOf(state, key, rank));
  if (!forecast) return std::nullopt;
  MemoryGrowth growth{.from = watch.first,
                      .to = watch.last,
                      .bytes_per_second = forecast->bytes_per_second,
                      .steps = {}};
  if (watch.first_step && watch.last_step && *watch.last_step > *watch.first_step) {
    growth.steps = *watch.last_step - *watch.first_step;
  }
  return growth;
}

// "NVRM: Xid (PCI:0000:C1:00): 79, ..." -> "c1:00": domains are written with four or eight digits.
std::string BusOf(const std::string& line) {
  const std::size_t at = line.find("PCI:");
  if (at == std::string::npos) return {};
  const std::size_t domain = line.find(':', at + 4);
  if (domain == std::string::npos || domain + 6 > line.size()) return {};
  return Lower(line.substr(domain + 1, 5));
}

}  // namespace

void WatchFaults(Draft& draft, const NodeId& node, const from_node::Samples& said) {
  const State& state = draft.state();
  const auto held = state.held_by_node.find(node);
  if (held == state.held_by_node.end()) return;
  const NodeInventory* inventory = InventoryOf(state, node);
  for (const Key& key : held->second) {
    const AttemptPhase phase = state.attempts.at(key).phase;
    const bool runs = phase == AttemptPhase::kRunning;
    if (!runs && phase != AttemptPhase::kStopping) continue;
    const AllocRecord& alloc = state.allocs.at(key).at(node);
    LiveAttempt& live = draft.live().attempts[key];
    for (const GpuSample& sample : said.gpus) {
      if (std::ranges::find(alloc.gpus, sample.uuid) == alloc.gpus.end()) continue;
      GpuSeen& seen = live.seen[sample.uuid];
      NoteFaults(draft, key, node, sample, seen);
      if (!runs) continue;
      seen.used = sample.used_bytes;
      seen.foreign = sample.foreign_bytes;
    }
    if (runs && inventory != nullptr && said.host.memory_available_bytes > 0) {
      live.host_seen[node] = {inventory->memory_bytes, said.host.memory_available_bytes};
    }
  }
}

void WatchLayers(Draft& draft, const from_node::Samples& said) {
  const State& state = draft.state();
  for (const RankSample& sample : said.ranks) {
    const auto attempt = state.attempts.find(sample.key);
    if (!sample.allocated_bytes || sample.memory_age_ms > kFreshMs) continue;
    if (attempt == state.attempts.end()) continue;
    if (attempt->second.phase != AttemptPhase::kRunning) continue;
    auto& layers = draft.live().attempts[sample.key].layers;
    const auto [entry, fresh] = layers.try_emplace(sample.rank);
    LayerWatch& watch = entry->second;
    if (fresh) watch.first = *sample.allocated_bytes;
    if (!watch.first_step) watch.first_step = sample.step;
    watch.last = *sample.allocated_bytes;
    watch.last_step = sample.step;
    watch.trend.Add(said.boot, watch.last);
  }
}

LastSeen SeenOf(const State& state, const Key& key, const RankRecord& rank) {
  LastSeen last;
  const auto live = state.live.attempts.find(key);
  if (live == state.live.attempts.end()) return last;
  if (const auto host = live->second.host_seen.find(rank.node);
      host != live->second.host_seen.end() && host->second.first > 0) {
    last.host_total = host->second.first;
    last.host_available = host->second.second;
  }
  if (const auto layers = live->second.layers.find(rank.rank);
      layers != live->second.layers.end()) {
    last.growth = GrowthOf(state, key, rank, layers->second);
  }
  const NodeInventory* inventory = InventoryOf(state, rank.node);
  const std::vector<GpuUuid> gpus = GpusOf(state, key, rank);
  last.had_no_gpu = gpus.empty();
  for (const GpuUuid& gpu : gpus) {
    if (inventory != nullptr) {
      if (std::string why = WhyGpuFails(*inventory, gpu); !why.empty()) {
        last.failed_gpus.push_back(std::move(why));
      }
    }
    const auto found = live->second.seen.find(gpu);
    if (found == live->second.seen.end()) continue;
    const GpuSeen& seen = found->second;
    last.xids.insert(last.xids.end(), seen.xids.begin(), seen.xids.end());
    last.ecc_errors +=
        seen.ecc_last.value_or(0) - std::min(seen.ecc_first.value_or(0), seen.ecc_last.value_or(0));
    if (inventory == nullptr) continue;
    const auto device = std::ranges::find(inventory->gpus, gpu, &GpuDevice::uuid);
    if (device == inventory->gpus.end() || device->memory_bytes == 0 || !seen.used) continue;
    if (seen.used <= last.gpu_used) continue;  // the fullest of them tells
    last.gpu_total = device->memory_bytes;
    last.gpu_used = std::min(*seen.used, device->memory_bytes);
    last.gpu_foreign = seen.foreign;
  }
  return last;
}

std::optional<RankMemory> MemoryOf(const State& state, const Key& key, const RankRecord& rank) {
  const auto live = state.live.attempts.find(key);
  const auto node = state.live.nodes.find(rank.node);
  if (live == state.live.attempts.end() || node == state.live.nodes.end()) return std::nullopt;
  RankMemory memory;
  if (const auto said = live->second.samples.find(rank.rank); said != live->second.samples.end()) {
    memory.allocated = said->second.allocated_bytes;
    memory.reserved = said->second.reserved_bytes;
    if (memory.allocated) memory.said = node->second.sampled - Millis{said->second.memory_age_ms};
  }
  const std::vector<GpuUuid> gpus = GpusOf(state, key, rank);
  const NodeInventory* inventory = InventoryOf(state, rank.node);
  // Of several GPUs the rank uses one, and nobody knows which.
  if (gpus.size() == 1 && inventory != nullptr) {
    const std::vector<GpuSample>& samples = node->second.samples;
    const auto sample = std::ranges::find(samples, gpus.front(), &GpuSample::uuid);
    const auto device = std::ranges::find(inventory->gpus, gpus.front(), &GpuDevice::uuid);
    if (sample != samples.end() && device != inventory->gpus.end()) {
      memory.process = sample->ours_bytes;
      memory.foreign = sample->foreign_bytes;
      if (sample->used_bytes)
        memory.free = device->memory_bytes - std::min(*sample->used_bytes, device->memory_bytes);
      memory.sampled = node->second.sampled;
    }
  }
  if (!memory.allocated && !memory.free && !memory.process) return std::nullopt;
  return memory;
}

std::vector<std::string> OwnKernelLines(const State& state, const Key& key,
                                        const RankRecord& rank) {
  std::vector<std::string> own;
  const NodeInventory* inventory = InventoryOf(state, rank.node);
  const std::vector<GpuUuid> gpus = GpusOf(state, key, rank);
  for (const std::string& line : rank.exit->kernel_lines) {
    const std::string bus = line.find("NVRM: Xid") == std::string::npos ? "" : BusOf(line);
    const bool ours =
        bus.empty() || inventory == nullptr || std::ranges::any_of(gpus, [&](const GpuUuid& gpu) {
          const auto device = std::ranges::find(inventory->gpus, gpu, &GpuDevice::uuid);
          return device != inventory->gpus.end() &&
                 Lower(device->pci).find(":" + bus) != std::string::npos;
        });
    if (ours) own.push_back(line);
  }
  return own;
}

}  // namespace launch::controller
