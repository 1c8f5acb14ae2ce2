#include "controller/core/unknown_attempts.h"

#include <fmt/format.h>

#include <set>
#include <vector>

namespace launch::controller {
namespace {

void Claim(Draft& draft, const NodeId& node, const Key& key) {
  const auto found = draft.state().jobs.find(key.job);
  if (found == draft.state().jobs.end()) return;
  draft.live().unknown[key].insert(node);
  draft.TouchQueue();
  // What is about to start beside it does not.
  const auto newest = draft.state().attempts.find(Key{key.job, Attempt{found->second.attempts}});
  if (newest == draft.state().attempts.end() || newest->first == key) return;
  if (newest->second.phase == AttemptPhase::kPreparing) RequeueForNewer(draft, key.job);
}

// One that was not heard since our start; null: all were.
const NodeId* NodeToReport(const State& state) {
  for (const auto& [id, record] : state.nodes) {
    if (!WasHeard(state, id) && record.fenced_by.empty()) return &id;
  }
  return nullptr;
}

}  // namespace

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

void NoteUnknown(Draft& draft, const NodeId& node, const from_node::Hello& hello) {
  for (const AllocationStatus& status : hello.allocations) {
    if (!IsGone(status.phase)) Claim(draft, node, status.key);
  }
}

void LeaveUnknown(Draft& draft, const NodeId& node, const AllocationStatus& status) {
  const State& state = draft.state();
  const std::string key = ToString(status.key);
  if (status.gpus.empty()) draft.live().nodes.at(node).strangers[status.key] = draft.wall();
  Claim(draft, node, status.key);
  const bool of_a_job = state.jobs.contains(status.key.job);
  draft.Event(
      "allocation.unknown", Subject(node),
      fmt::format("{} runs there, but there is no such {} here; left alone, {}{}; "
                  "`launch quarantine release {}` ends it",
                  key, WhatIsUnknown(state, status.key),
                  status.gpus.empty() ? "nothing else is started there" : "its GPUs are held",
                  of_a_job ? ", and its job does not start beside it" : "", key));
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
}

void ForgetUnknown(Draft& draft, const NodeId& node, const Key& key) {
  Live& live = draft.live();
  if (live.nodes[node].strangers.erase(key) > 0) draft.TouchQueue();
  const auto found = live.unknown.find(key);
  if (found == live.unknown.end() || found->second.erase(node) == 0) return;
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
  for (auto& [node, how] : live->second.unrecorded) how.told_to_end = true;
  if (!live->second.unrecorded.empty()) draft.Touch(job);
}

void StopUnknown(Draft& draft, JobId job) {
  const auto& unknown = draft.state().live.unknown;
  for (auto found = unknown.lower_bound(Key{job, Attempt{0}});
       found != unknown.end() && found->first.job == job; ++found) {
    for (const NodeId& node : found->second) {
      draft.Event("allocation.stale", Subject(found->first),
                  fmt::format("{} has it, and its job was cancelled; stopped", node.value));
      draft.Send(node, to_node::Stop{found->first, StopCause::kStale,
                                     draft.state().specs.at(job).spec.stop_duration});
    }
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
  return fmt::format(
      "{} runs {}, which this store does not know, for it went back in time; it is waited for: "
      "`launch quarantine release {}` or `launch cancel {}` ends it",
      found->second.begin()->value, ToString(found->first), ToString(found->first), job.value);
}

}  // namespace launch::controller
