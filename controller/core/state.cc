#include "controller/core/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "common/mig.h"
#include "common/planted.h"
#include "controller/core/unknown_attempts.h"
#include "planner/place/demand.h"

namespace launch::controller {

const NodeInventory* InventoryOf(const State& state, const NodeId& node) {
  const auto found = state.inventories.find(node);
  return found == state.inventories.end() ? nullptr : found->second.get();
}

const AllocRecord* FindAlloc(const State& state, const Key& key, const NodeId& node) {
  const auto allocs = state.allocs.find(key);
  if (allocs == state.allocs.end()) return nullptr;
  const auto alloc = allocs->second.find(node);
  return alloc == allocs->second.end() ? nullptr : &alloc->second;
}

bool HasRank(const AllocRecord& alloc, Rank rank) {
  return std::find(alloc.ranks.begin(), alloc.ranks.end(), rank) != alloc.ranks.end();
}

bool IsReleased(const AllocRecord& alloc) {
  return alloc.phase == StoredAllocPhase::kReleased ||
         alloc.phase == StoredAllocPhase::kQuarantined || alloc.phase == StoredAllocPhase::kRefused;
}

// ---- what may be used ----

namespace {

// Another live node that reported the device earlier: it keeps it.
std::optional<NodeId> EarlierReporter(const State& state, const NodeId& node, const GpuUuid& gpu) {
  const auto reporters = state.reported_by.find(gpu);
  if (reporters == state.reported_by.end()) return std::nullopt;
  const auto live = state.live.nodes.find(node);
  for (const NodeId& other : reporters->second) {
    const auto twin = state.live.nodes.find(other);
    if (other == node || twin == state.live.nodes.end()) continue;
    if (!twin->second.session || twin->second.silent) continue;
    if (live == state.live.nodes.end() ||
        std::tie(twin->second.attached, other) < std::tie(live->second.attached, node)) {
      return other;
    }
  }
  return std::nullopt;
}

// Of AllocRecord and GpuRecord alike: as the agent was that saw what the record tells of.
bool SeesAsThen(const auto& record, const LiveNode& live) {
  if (record.boot_id != live.boot_id) return true;  // nothing lives on over a boot
  if (record.install_id.empty() || record.install_id == live.machine.install_id) return true;
  return !record.cgroups.empty() && record.cgroups == live.cgroups;
}

}  // namespace

bool MaySpeakFor(const State& state, const NodeId& node, const GpuUuid& gpu) {
  if (const auto owner = state.gpu_owner.find(gpu); owner != state.gpu_owner.end()) {
    const AllocRecord* alloc = FindAlloc(state, owner->second, node);
    return alloc != nullptr && std::ranges::find(alloc->gpus, gpu) != alloc->gpus.end();
  }
  const NodeInventory* inventory = InventoryOf(state, node);
  if (inventory == nullptr) return false;
  const std::optional<GpuPlace> place = FindGpu(*inventory, gpu);
  return place && !EarlierReporter(state, node, inventory->gpus[place->index].uuid);
}

bool CountsCores(const State& state, JobId job) {
  const JobSpec& spec = state.specs.at(job).spec;
  return spec.cpus || spec.device == DeviceChoice::kCpu;
}

bool IsFenced(const State& state, const NodeId& node) {
  const auto found = state.nodes.find(node);
  return found != state.nodes.end() && !found->second.fenced_by.empty();
}

bool WasHeard(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  return live != state.live.nodes.end() && live->second.heard != BootTime{};
}

std::optional<BootTime> UnseenSince(const State& state, const Key& key, const NodeId& node) {
  const auto live = state.live.attempts.find(key);
  if (live == state.live.attempts.end()) return std::nullopt;
  const auto found = live->second.unrecorded.find(node);
  return found == live->second.unrecorded.end() ? std::nullopt : found->second.since;
}

bool WaitsForAPerson(const State& state, const Key& key, const NodeId& node) {
  return UnseenSince(state, key, node) &&
         !state.live.attempts.at(key).unrecorded.at(node).told_to_end;
}

bool SeesWhatRan(const AllocRecord& alloc, const LiveNode& live) { return SeesAsThen(alloc, live); }
bool SeesWhatRan(const GpuRecord& gpu, const LiveNode& live) { return SeesAsThen(gpu, live); }

std::string WhyHeld(const State& state, const GpuRecord& gpu) {
  const auto live = state.live.nodes.find(gpu.node);
  if (live == state.live.nodes.end() || !live->second.session) return gpu.why;
  if (SeesWhatRan(gpu, live->second)) return gpu.why;
  return fmt::format(
      "{}; the agent was installed anew and cannot see whether that is over: look there, then "
      "launch quarantine release {}",
      gpu.why, gpu.uuid.value);
}

std::string WhyDrained(const NodeRecord& node) {
  if (!node.drained) return {};
  return node.drain_reason.empty() ? "drained" : "drained: " + node.drain_reason;
}

std::string WhyUnschedulable(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  if (live == state.live.nodes.end()) return "silent";
  if (!live->second.session) return live->second.regress_said ? live->second.silent_why : "silent";
  if (live->second.silent) return "silent: " + live->second.silent_why;
  if (!live->second.strangers.empty()) {
    const std::string key = ToString(live->second.strangers.begin()->first);
    return fmt::format("runs {}, of no {} here: launch quarantine release {}", key,
                       WhatIsUnknown(state, live->second.strangers.begin()->first), key);
  }
  if (live->second.turned_away) return "turns jobs away: " + live->second.turned_away->why;
  const auto record = state.nodes.find(node);
  if (record != state.nodes.end() && record->second.drained && !Planted(Bug::kDrainedOffer))
    return WhyDrained(record->second);
  const auto inventory = state.inventories.find(node);
  if (inventory == state.inventories.end()) return "no inventory";
  for (const GpuDevice& gpu : inventory->second->gpus) {
    if (const auto other = EarlierReporter(state, node, gpu.uuid)) {
      return fmt::format("GPU {} is also reported by node {}", gpu.uuid.value, other->value);
    }
  }
  if (HasOnlyBadGpus(*inventory->second)) {
    return "no working GPU: " + HealthOf(*inventory->second).reason;
  }
  return {};
}

bool IsSchedulable(const State& state, const NodeId& node) {
  return WhyUnschedulable(state, node).empty();
}

}  // namespace launch::controller
