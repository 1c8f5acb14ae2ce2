#include "controller/core/kept_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/units.h"
#include "controller/core/recovery.h"

namespace launch::controller {
namespace {

// When a node that does not answer is no longer waited for; absent: it answers.
std::optional<BootTime> GivenUpAt(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  if (live == state.live.nodes.end()) return state.live.since + kKeptWhileSilent;
  if (live->second.session && !live->second.silent) return std::nullopt;
  return std::max(live->second.silent_since, state.live.since) + kKeptWhileSilent;
}

// When its nodes are no longer kept for the slowest of them; absent: it is not being stopped.
std::optional<BootTime> StopGivenUpAt(const State& state, const AttemptRecord& attempt) {
  if (attempt.phase != AttemptPhase::kStopping) return std::nullopt;
  const auto live = state.live.attempts.find(attempt.key);
  const BootTime began = live == state.live.attempts.end()
                             ? state.live.since
                             : live->second.stop_began.value_or(state.live.since);
  const JobSpec& spec = state.specs.at(attempt.key.job).spec;
  return began + SignalLead(spec) + spec.stop_duration + kKeptInStop;
}

std::optional<std::size_t> IndexOf(const NodeInventory& inventory, const GpuUuid& gpu) {
  for (std::size_t i = 0; i < inventory.gpus.size(); ++i) {
    if (inventory.gpus[i].uuid == gpu) return i;
  }
  return std::nullopt;
}

std::string WhyNotGpu(const State& state, const AllocRecord& alloc, const GpuUuid& gpu) {
  const NodeInventory& inventory = *state.inventories.at(alloc.node);
  const std::optional<std::size_t> index = IndexOf(inventory, gpu);
  if (!index) return gpu.value + " is gone";
  const GpuDevice& device = inventory.gpus[*index];
  if (device.health == Health::kBad) return gpu.value + ": " + device.why;
  if (const auto held = state.quarantine.find(gpu); held != state.quarantine.end()) {
    return gpu.value + " is quarantined: " + held->second.why;
  }
  if (state.live.nodes.at(alloc.node).busy_gpus.contains(gpu)) return gpu.value + " is busy";
  const auto owner = state.gpu_owner.find(gpu);
  if (owner != state.gpu_owner.end() && owner->second != alloc.key) {
    return gpu.value + " has another owner";
  }
  return {};
}

std::string WhyNotNode(const State& state, const AllocRecord& alloc) {
  if (std::string why = WhyUnschedulable(state, alloc.node); !why.empty()) return why;
  if (!alloc.boot_id.empty() && state.live.nodes.at(alloc.node).boot_id != alloc.boot_id) {
    return "it was booted since";
  }
  for (const GpuUuid& gpu : alloc.gpus) {
    if (std::string why = WhyNotGpu(state, alloc, gpu); !why.empty()) return why;
  }
  return {};
}

bool IsWanted(const JobRecord& job) {
  return job.phase != JobPhase::kDone && !job.held && job.cancelled_by.empty() && !IsRequeued(job);
}

// Why a job that waits is not for its place, although nothing is wrong there; empty: it is. A new
// `begin` is far away, or the wall clock went back.
std::string WhyTooEarly(const Draft& draft, const JobRecord& job) {
  if (job.phase != JobPhase::kQueued) return {};
  Millis left{0};
  const std::optional<WallTime>& begin = draft.state().specs.at(job.id).spec.begin;
  if (begin) left = *begin - draft.wall();
  const auto backoff = draft.state().live.not_before.find(job.id);
  if (backoff != draft.state().live.not_before.end()) {
    left = std::max(left, backoff->second - draft.now());
  }
  if (left <= kLongestKept) return {};
  return "it begins in " + FormatDurationShort(left);
}

// What is used up is not kept for. A change of the plan is none of them, but rare.
bool MayBeRetried(const JobRecord& job, const RetrySpec& retry, StopCause cause) {
  const Budget budget =
      cause == StopCause::kRankFailed ? Budget::kProgram : Budget::kInfrastructure;
  return !retry.max || RetriesUsed(job, budget) < *retry.max;
}

// Whether anything of a start may differ from that of the attempt before, so that nodes are asked.
bool StagesAgain(const SpecRecord& record, bool use_snapshot) {
  const JobSpec& spec = record.spec;
  const bool finds_checkpoint = spec.checkpoint.resume && !spec.checkpoint.dir.empty();
  return finds_checkpoint || !spec.setup.empty() || spec.snapshot || use_snapshot;
}

bool Share(const std::vector<GpuUuid>& some, const std::vector<GpuUuid>& others) {
  return std::ranges::any_of(
      some, [&](const GpuUuid& gpu) { return std::ranges::find(others, gpu) != others.end(); });
}

// A node whose ranks ended well was free for others while the attempt went on elsewhere: one of
// them may have failed since, and keep its own place there.
bool IsInPlaceOfAnother(const State& state, JobId job, const AllocRecord& alloc) {
  return std::ranges::any_of(state.keepers, [&](JobId keeper) {
    if (keeper == job) return false;
    const Key key{keeper, Attempt{state.jobs.at(keeper).keeps}};
    const AllocRecord* other = FindAlloc(state, key, alloc.node);
    return other != nullptr && Share(other->gpus, alloc.gpus);
  });
}

// The same of one whose plan is being made.
bool IsHeldForAnother(const State& state, JobId job, const AllocRecord& alloc) {
  return std::ranges::any_of(state.live.holds, [&](const auto& entry) {
    const Hold& hold = entry.second;
    for (std::size_t i = 0; entry.first != job && i < hold.nodes.size(); ++i) {
      if (hold.nodes[i] == alloc.node && Share(hold.gpus[i], alloc.gpus)) return true;
    }
    return false;
  });
}

// Others were given the cores that a job which counts them had there.
bool LacksCores(const State& state, JobId job, const AllocRecord& alloc) {
  if (!IsReleased(alloc) || !CountsCores(state, job)) return false;
  int taken = alloc.cpus;
  const auto take = [&](JobId other, int cpus) {
    if (other != job && CountsCores(state, other)) taken += cpus;
  };
  if (const auto held = state.held_by_node.find(alloc.node); held != state.held_by_node.end()) {
    for (const Key& key : held->second) take(key.job, state.allocs.at(key).at(alloc.node).cpus);
  }
  for (const auto& [other, hold] : state.live.holds) {
    for (std::size_t i = 0; i < hold.nodes.size(); ++i) {
      if (hold.nodes[i] == alloc.node) take(other, hold.cpus[i]);
    }
  }
  for (const JobId other : state.keepers) {
    const Key key{other, Attempt{state.jobs.at(other).keeps}};
    const AllocRecord* kept = FindAlloc(state, key, alloc.node);
    const bool counted = state.live.holds.contains(other) || kept == nullptr || !IsReleased(*kept);
    if (!counted) take(other, kept->cpus);
  }
  return taken > state.inventories.at(alloc.node)->cores;
}

}  // namespace

PlaceLook LookAtPlace(const State& state, const JobRecord& job, BootTime now) {
  const Key key{job.id, Attempt{job.keeps}};
  const auto attempt = state.attempts.find(key);
  if (attempt == state.attempts.end()) return {"its attempt is gone", ""};
  if (const auto until = StopGivenUpAt(state, attempt->second); until && *until <= now) {
    return {"its attempt does not end everywhere", ""};
  }
  PlaceLook look;
  for (const NodeId& node : attempt->second.nodes) {
    const AllocRecord* alloc = FindAlloc(state, key, node);
    if (alloc == nullptr) return {node.value + " has no part of it", ""};
    // Whoever said that it has no power may err: what it ran may be there when it is back.
    if (IsFenced(state, node)) return {node.value + " was fenced", ""};
    if (const auto until = GivenUpAt(state, node)) {
      if (*until <= now) return {node.value + " is silent", ""};
      look.waits = node.value + " does not answer";
      continue;
    }
    if (IsInPlaceOfAnother(state, job.id, *alloc) || IsHeldForAnother(state, job.id, *alloc)) {
      return {node.value + " is kept for another job by now", ""};
    }
    if (std::string why = WhyNotNode(state, *alloc); !why.empty()) {
      return {fmt::format("{}: {}", node.value, why), ""};
    }
    if (LacksCores(state, job.id, *alloc)) {
      return {node.value + " has given its cores to other jobs by now", ""};
    }
  }
  return look;
}

void KeepPlace(Draft& draft, const Facts& facts, StopCause cause) {
  if (cause != StopCause::kRankFailed && cause != StopCause::kHang) return;
  const JobSpec& spec = draft.state().specs.at(facts.job.id).spec;
  if (!MayBeRetried(facts.job, spec.retry, cause) || spec.debug || !IsWanted(facts.job)) return;
  JobRecord job = draft.state().jobs.at(facts.job.id);
  job.keeps = facts.attempt.key.attempt.value;
  const PlaceLook look = LookAtPlace(draft.state(), job, draft.now());
  if (look.lost.empty() && look.waits.empty()) draft.Put(std::move(job));
}

bool StaysInPlace(const Draft& draft, const JobRecord& job, const Key& ended, Millis backoff) {
  if (job.keeps != ended.attempt.value || backoff > kLongestKept || !IsWanted(job)) return false;
  const AttemptRecord& attempt = draft.state().attempts.at(ended);
  const bool avoided = std::ranges::any_of(
      attempt.nodes, [&](const NodeId& node) { return job.excluded_nodes.contains(node.value); });
  return !avoided && LookAtPlace(draft.state(), job, draft.now()).lost.empty();
}

void LeavePlace(Draft& draft, JobRecord& job, const std::string& why) {
  if (std::exchange(job.keeps, 0) == 0) return;
  if (!why.empty() && job.phase == JobPhase::kQueued) {
    draft.Event("job.leaves_place", Subject(job.id), why);
  }
  draft.live().staged.erase(job.id);
}

void ReviewPlaces(Draft& draft) {
  const State& state = draft.state();
  for (const JobId id : std::set<JobId>(state.keepers)) {
    JobRecord job = state.jobs.at(id);
    std::string lost = LookAtPlace(state, job, draft.now()).lost;
    if (lost.empty()) lost = WhyTooEarly(draft, job);
    if (lost.empty() && IsWanted(job)) continue;
    LeavePlace(draft, job, lost);
    draft.Put(std::move(job));
    draft.TouchQueue();
  }
}

bool HasLostPlace(const State& state, BootTime now) {
  return std::ranges::any_of(state.keepers, [&](JobId id) {
    return !LookAtPlace(state, state.jobs.at(id), now).lost.empty();
  });
}

std::optional<BootTime> NextPlaceLost(const State& state) {
  std::optional<BootTime> next;
  for (const JobId id : state.keepers) {
    const auto attempt = state.attempts.find(Key{id, Attempt{state.jobs.at(id).keeps}});
    if (attempt == state.attempts.end()) continue;
    if (const auto at = StopGivenUpAt(state, attempt->second))
      next = std::min(next.value_or(*at), *at);
    for (const NodeId& node : attempt->second.nodes) {
      if (const auto at = GivenUpAt(state, node)) next = std::min(next.value_or(*at), *at);
    }
  }
  return next;
}

Placement PlacementInPlace(const State& state, const JobRecord& job,
                           const std::vector<effect::NodeOffer>& offers) {
  const Key key{job.id, Attempt{job.keeps}};
  Placement placement;
  for (const NodeId& node : state.attempts.at(key).nodes) {
    const auto offer = std::ranges::find_if(
        offers, [&](const effect::NodeOffer& one) { return one.inventory->node == node; });
    placement.offers.push_back(static_cast<std::size_t>(offer - offers.begin()));
    std::vector<int> gpus;
    for (const GpuUuid& gpu : state.allocs.at(key).at(node).gpus) {
      gpus.push_back(static_cast<int>(*IndexOf(*offer->inventory, gpu)));
    }
    placement.gpus.push_back(std::move(gpus));
  }
  return placement;
}

void KeepStaging(Draft& draft, const Key& ended) {
  const auto live = draft.live().attempts.find(ended);
  if (live == draft.live().attempts.end()) return;
  const AttemptRecord& attempt = draft.state().attempts.at(ended);
  // What was reached then may not be any more: the next attempt stages as the first did.
  if (attempt.nodes.size() > 1 && attempt.verdict && DoubtsNetwork(*attempt.verdict)) return;
  // Nothing found: a restart of the controller, or a decision that was taken back and is drawn
  // again; what was kept then is still there.
  if (live->second.ready.size() != attempt.nodes.size()) return;
  draft.live().staged[ended.job] = {ended.attempt, live->second.use_snapshot, live->second.ready};
}

void TakeOverStaging(Draft& draft, const Key& next, Attempt before) {
  const auto staged = draft.live().staged.extract(next.job);
  if (staged.empty() || staged.mapped().attempt != before) return;
  LiveAttempt& live = draft.live().attempts[next];
  live.use_snapshot = staged.mapped().use_snapshot;
  live.known = std::move(staged.mapped().facts);
  if (!StagesAgain(draft.state().specs.at(next.job), live.use_snapshot)) live.ready = live.known;
}

StagingFacts WithKnown(const LiveAttempt& live, const NodeId& node, StagingFacts found) {
  const auto known = live.known.find(node);
  if (known == live.known.end()) return found;
  const StagingFacts& old = known->second;
  std::vector<PathFact> kept;
  for (const PathFact& path : old.paths) {
    const bool again = std::ranges::any_of(
        found.paths, [&](const PathFact& one) { return one.what == path.what; });
    if (!again) kept.push_back(path);
  }
  found.paths.insert(found.paths.end(), kept.begin(), kept.end());
  if (found.reach.empty()) found.reach = old.reach;
  if (found.disks.empty()) found.disks = old.disks;
  if (!found.runtime) found.runtime = old.runtime;
  return found;
}

}  // namespace launch::controller
