#include "controller/core/unknown_attempts.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "common/planted.h"

namespace launch::controller {
namespace {

void StopUnknownOn(Draft& draft, const NodeId& node, const Key& key) {
  draft.Event("allocation.stale", Subject(key),
              fmt::format("{} has it, and its job was cancelled; stopped", node.value));
  draft.Send(node, to_node::Stop{key, StopCause::kStale,
                                 draft.state().specs.at(key.job).spec.stop_duration});
}

}  // namespace

const NodeId* NodeToReport(const State& state) {
  for (const auto& [id, record] : state.nodes) {
    if (!WasHeard(state, id) && record.fenced_by.empty()) return &id;
  }
  return nullptr;
}

bool IsUnknownHere(const State& state, const Key& key) {
  const auto job = state.jobs.find(key.job);
  return job == state.jobs.end() || key.attempt.value > job->second.attempts;
}

std::string_view WhatIsUnknown(const State& state, const Key& key) {
  return state.jobs.contains(key.job) ? "attempt" : "job";
}

std::optional<Key> UnknownOn(const State& state, const NodeId& node) {
  for (const auto& [key, nodes] : state.live.unknown) {
    if (nodes.contains(node)) return key;
  }
  const auto live = state.live.nodes.find(node);
  if (live != state.live.nodes.end() && !live->second.strangers.empty()) {
    return live->second.strangers.begin()->first;
  }
  for (const auto& [gpu, record] : state.quarantine) {
    const bool of_a_job = record.key.job.value > 0;
    if (record.node == node && of_a_job && IsUnknownHere(state, record.key)) return record.key;
  }
  return std::nullopt;
}

void RequeueForNewer(Draft& draft, JobId id) {
  JobRecord job = draft.state().jobs.at(id);
  if (job.phase != JobPhase::kActive || job.went_back || !job.cancelled_by.empty()) return;
  job.went_back = true;
  draft.Put(std::move(job));
  draft.Touch(id);
}

void ClaimUnknown(Draft& draft, const NodeId& node, const Key& key) {
  const auto found = draft.state().jobs.find(key.job);
  if (found == draft.state().jobs.end()) return;
  RaiseFloor(draft, node, key);
  draft.live().unknown[key].insert(node);
  draft.TouchQueue();
  draft.Touch(key.job);  // what is about to start beside it does not
}

bool IsClaimedBeside(const State& state, const Key& key) {
  for (auto found = state.live.unknown.lower_bound(Key{key.job, Attempt{0}});
       found != state.live.unknown.end() && found->first.job == key.job; ++found) {
    if (found->first != key) return true;
  }
  return false;
}

void NoteUnknown(Draft& draft, const NodeId& node, const from_node::Hello& hello) {
  for (const AllocationStatus& status : hello.allocations) {
    if (!IsGone(status.phase)) ClaimUnknown(draft, node, status.key);
  }
}

void KeepUnknown(Draft& draft, const NodeId& node, const AllocationStatus& status) {
  const State& state = draft.state();
  ClaimUnknown(draft, node, status.key);
  std::vector<GpuUuid> foreign;
  for (const GpuUuid& gpu : status.gpus) {
    const auto held = state.quarantine.find(gpu);
    const bool of_another = held != state.quarantine.end() && held->second.node != node;
    if (of_another || !MaySpeakFor(state, node, gpu)) {
      foreign.push_back(gpu);
    } else if (held == state.quarantine.end()) {  // else since when and why stay as they are
      draft.HoldGpu(node, gpu,
                    fmt::format("allocation of an unknown {}", WhatIsUnknown(state, status.key)),
                    status.key);
    }
  }
  NoteForeignGpus(draft, node, foreign);
  const bool holds_none = foreign.size() == status.gpus.size();
  if (holds_none) draft.live().nodes.at(node).strangers[status.key] = draft.wall();
  const auto job = state.jobs.find(status.key.job);
  const bool is_here = job != state.jobs.end();
  const bool cancelled = is_here && !job->second.cancelled_by.empty();
  if (cancelled && (state.live.cancelled.contains(job->first) || Planted(Bug::kOldCancel))) {
    StopUnknownOn(draft, node, status.key);
    return;
  }
  const std::string key = ToString(status.key);
  draft.Event("allocation.unknown", Subject(node),
              fmt::format("{} runs there, but there is no such {} here; left alone, {}{}; "
                          "`launch quarantine release {}` ends it",
                          key, WhatIsUnknown(state, status.key),
                          holds_none ? "nothing else is started there" : "its GPUs are held",
                          is_here ? ", and its job does not start beside it" : "", key));
}

void ForgetUnknown(Draft& draft, const NodeId& node, const Key& key) {
  Live& live = draft.live();
  if (live.nodes[node].strangers.erase(key) > 0) draft.TouchQueue();
  const auto found = live.unknown.find(key);
  if (found == live.unknown.end() || !found->second.contains(node)) return;
  draft.decision().forgotten[key].insert(node);
  found->second.erase(node);
  if (found->second.empty()) live.unknown.erase(found);
  draft.TouchQueue();
}

void ForgetUnknownOf(Draft& draft, const NodeId& node) {
  std::set<Key> keys;
  for (const auto& [key, nodes] : draft.live().unknown) {
    if (nodes.contains(node)) keys.insert(key);
  }
  for (const Key& key : keys) ForgetUnknown(draft, node, key);
}

void EndUnseen(Draft& draft, JobId job) {
  const auto found = draft.state().jobs.find(job);
  if (found == draft.state().jobs.end()) return;
  const auto live = draft.live().attempts.find(Key{job, Attempt{found->second.attempts}});
  if (live == draft.live().attempts.end()) return;
  if (live->second.unrecorded.empty()) return;
  for (auto& [node, how] : draft.ChangeLive(live->first).unrecorded) how.told_to_end = true;
  draft.Touch(job);
}

void StopUnknown(Draft& draft, JobId job) {
  draft.NoteCancelled(job, true);
  const auto& unknown = draft.state().live.unknown;
  for (auto found = unknown.lower_bound(Key{job, Attempt{0}});
       found != unknown.end() && found->first.job == job; ++found) {
    for (const NodeId& node : found->second) StopUnknownOn(draft, node, found->first);
  }
}

std::string WhyRunsAlready(const State& state, JobId job) {
  const auto found = state.live.unknown.lower_bound(Key{job, Attempt{0}});
  if (found == state.live.unknown.end() || found->first.job != job) {
    const NodeId* node = state.live.awaits_nodes ? NodeToReport(state) : nullptr;
    if (node == nullptr) return {};
    return fmt::format(
        "the store went back in time once: it is waited until {} tells what it runs, for {} s at "
        "most",
        node->value, kReturnTime.count() / 1'000);
  }
  const NodeId& node = *found->second.begin();
  const auto live = state.live.nodes.find(node);
  const bool answers = live != state.live.nodes.end() && live->second.session.has_value();
  const std::string way_out =
      answers ? fmt::format("`launch quarantine release {}` or `launch cancel {}` ends it",
                            ToString(found->first), job.value)
              : fmt::format("{} is silent: if it has no power, `launch node fence {}`", node.value,
                            node.value);
  return fmt::format(
      "{} runs {}, which this store does not know, for it went back in time; it is waited for: {}",
      node.value, ToString(found->first), way_out);
}

}  // namespace launch::controller
