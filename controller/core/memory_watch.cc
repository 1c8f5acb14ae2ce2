#include "controller/core/memory_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/units.h"

namespace launch::controller {
namespace {

constexpr double kGpuHigh = 0.80;
constexpr double kHostHigh = 0.70;
constexpr double kBelow = 0.05;  // so far under a line it may be crossed again

constexpr char kGpuRemedy[] =
    "keep GPU memory under 80 %: a smaller micro-batch with more accumulation, activation "
    "checkpointing; launch plan --what-if shows what each saves";
constexpr char kHostRemedy[] =
    "keep host memory under 70 %: fewer data loader workers, lower prefetch_factor, "
    "pin_memory=False, less CPU offload, or ask for more memory";
constexpr char kLimitRemedy[] =
    "above `memory:` the kernel kills it: ask for more, or keep it under 70 % with fewer data "
    "loader "
    "workers, lower prefetch_factor, pin_memory=False, less CPU offload";
constexpr char kTrendRemedy[] =
    "candidates: tensors kept over steps (a loss without .item(), lists in the data set), samples "
    "that get longer, caches of evaluation, fragmentation (expandable_segments:True)";

// Whether `line` is over its limit; true only at the moment it gets there.
bool Crosses(MemoryLine& line, double share, double limit) {
  line.share = share;
  if (line.high && share < limit - kBelow) line.high = false;
  if (line.high || share < limit) return false;
  line.high = true;
  return true;
}

Finding Warn(std::string code, const NodeId& node, std::string says, std::string remedy) {
  Finding finding =
      MakeFinding(std::move(code), Severity::kWarning, std::move(says), std::move(remedy));
  finding.node = node;
  return finding;
}

Finding GpuHigh(const NodeId& node, const GpuWatch& watch) {
  return Warn("gpu_memory_high", node,
              fmt::format("{} holds {} of {} ({:.0f} %)", watch.name, FormatBytes(watch.used),
                          FormatBytes(watch.total), 100 * watch.line.share),
              kGpuRemedy);
}

Finding HostHigh(const NodeId& node, const MemoryLine& line, std::uint64_t total) {
  return Warn(
      "host_memory_high", node,
      fmt::format("host memory is {:.0f} % in use, of {}", 100 * line.share, FormatBytes(total)),
      kHostRemedy);
}

Finding LimitNear(const NodeId& node, const LimitWatch& watch) {
  return Warn(
      "host_memory_high", node,
      fmt::format("the job's processes hold {} of its own limit of {} ({:.0f} %)",
                  FormatBytes(watch.used), FormatBytes(watch.limit), 100 * watch.line.share),
      kLimitRemedy);
}

Finding Trend(const NodeId& node, const GpuWatch& watch) {
  return Warn(
      "memory_trend", node,
      fmt::format("memory of {} grows by {} a minute: {} of {} are in use, full in "
                  "about {}",
                  watch.name,
                  FormatBytes(static_cast<std::uint64_t>(60 * watch.forecast->bytes_per_second)),
                  FormatBytes(watch.used), FormatBytes(watch.total),
                  FormatDurationShort(watch.forecast->left)),
      kTrendRemedy);
}

void Announce(Draft& draft, const Key& key, const Finding& finding) {
  draft.Event("attempt." + finding.code, Subject(key),
              fmt::format("{}: {}; {}", finding.node->value, finding.says, finding.remedy));
}

void WatchGpu(Draft& draft, const Key& key, const NodeInventory& inventory, const GpuSample& sample,
              const GpuDevice& device, BootTime at) {
  const NodeId& node = inventory.node;
  const std::uint64_t total = device.memory_bytes;
  GpuWatch& watch = draft.live().attempts[key].gpus[sample.uuid];
  watch.name = fmt::format("GPU {} ({})", &device - inventory.gpus.data(), sample.uuid.value);
  watch.node = node;
  watch.used = std::min(*sample.used_bytes, total);  // a node may say what it likes
  watch.peak = std::max(watch.peak, watch.used);
  watch.total = total;
  const double share = static_cast<double>(watch.used) / static_cast<double>(total);
  if (Crosses(watch.line, share, kGpuHigh)) {
    Announce(draft, key, GpuHigh(node, watch));
  }
  watch.trend.Add(at, watch.used);
  watch.forecast = watch.trend.Foresee(total);
  if (!watch.forecast || watch.foreseen) return;
  watch.foreseen = true;
  Announce(draft, key, Trend(node, watch));
}

void WatchHost(Draft& draft, const Key& key, const NodeId& node, const HostSample& sample,
               std::uint64_t total) {
  const std::uint64_t free = std::min(sample.memory_available_bytes, total);
  if (free == 0) return;  // not measured
  const double share = static_cast<double>(total - free) / static_cast<double>(total);
  MemoryLine& line = draft.live().attempts[key].hosts[node];
  if (Crosses(line, share, kHostHigh)) Announce(draft, key, HostHigh(node, line, total));
}

// What `memory:` allows the attempt on the node; nothing: no limit.
std::optional<std::uint64_t> LimitOn(const State& state, const Key& key, const NodeId& node) {
  const auto plan = state.plans.find(key);
  if (plan == state.plans.end()) return std::nullopt;
  const auto& allocations = plan->second->allocations;
  const auto found = std::ranges::find_if(allocations, [&](const PlannedAllocation& allocation) {
    return allocation.spec.node == node;
  });
  return found == allocations.end() ? std::nullopt : found->spec.memory_limit_bytes;
}

void WatchLimit(Draft& draft, const Key& key, const NodeId& node,
                const std::vector<RankSample>& ranks) {
  const std::optional<std::uint64_t> limit = LimitOn(draft.state(), key, node);
  if (!limit || *limit == 0) return;
  std::uint64_t used = 0;
  for (const RankSample& sample : ranks) {
    if (sample.key == key) used += std::min(sample.rss_bytes, *limit);
  }
  if (used == 0) return;  // not measured
  LimitWatch& watch = draft.live().attempts[key].limits[node];
  watch.used = std::min(used, *limit);
  watch.limit = *limit;
  const double share = static_cast<double>(watch.used) / static_cast<double>(*limit);
  if (Crosses(watch.line, share, kHostHigh)) Announce(draft, key, LimitNear(node, watch));
}

}  // namespace

void WatchMemory(Draft& draft, const NodeId& node, const from_node::Samples& said) {
  const State& state = draft.state();
  const auto held = state.held_by_node.find(node);
  const auto inventory = state.inventories.find(node);
  if (held == state.held_by_node.end() || inventory == state.inventories.end()) return;
  for (const Key& key : held->second) {
    if (state.attempts.at(key).phase != AttemptPhase::kRunning) continue;
    const AllocRecord& alloc = state.allocs.at(key).at(node);
    for (const GpuSample& sample : said.gpus) {
      if (!sample.used_bytes || std::ranges::find(alloc.gpus, sample.uuid) == alloc.gpus.end()) {
        continue;
      }
      const auto device = std::ranges::find(inventory->second->gpus, sample.uuid, &GpuDevice::uuid);
      if (device == inventory->second->gpus.end() || device->memory_bytes == 0) continue;
      WatchGpu(draft, key, *inventory->second, sample, *device, said.boot);
    }
    if (inventory->second->memory_bytes > 0) {
      WatchHost(draft, key, node, said.host, inventory->second->memory_bytes);
    }
    WatchLimit(draft, key, node, said.ranks);
  }
}

std::uint64_t PeakOfGpus(const State& state, const Key& key) {
  std::uint64_t peak = 0;
  const auto live = state.live.attempts.find(key);
  if (live == state.live.attempts.end()) return 0;
  for (const auto& [gpu, watch] : live->second.gpus) {
    const auto inventory = state.inventories.find(watch.node);
    // Where GPU pages and host pages are one, the driver counts both.
    const bool coherent =
        inventory != state.inventories.end() && inventory->second->coherent == CoherentMode::kNuma;
    if (!coherent) peak = std::max(peak, watch.peak);
  }
  return peak;
}

std::vector<Finding> MemoryWarnings(const State& state, const Key& key) {
  std::vector<Finding> findings;
  const auto live = state.live.attempts.find(key);
  if (live == state.live.attempts.end()) return findings;
  for (const auto& [_, watch] : live->second.gpus) {
    if (watch.line.high) findings.push_back(GpuHigh(watch.node, watch));
    if (watch.forecast) findings.push_back(Trend(watch.node, watch));
  }
  for (const auto& [node, line] : live->second.hosts) {
    const auto inventory = state.inventories.find(node);
    if (!line.high || inventory == state.inventories.end()) continue;
    findings.push_back(HostHigh(node, line, inventory->second->memory_bytes));
  }
  for (const auto& [node, watch] : live->second.limits) {
    if (watch.line.high) findings.push_back(LimitNear(node, watch));
  }
  return findings;
}

}  // namespace launch::controller
