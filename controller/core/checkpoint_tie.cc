#include "controller/core/checkpoint_tie.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/units.h"
#include "controller/core/attempt_facts.h"
#include "controller/core/recovery.h"

namespace launch::controller {
namespace {

// The last one whose ranks ran; null = none did.
const AttemptRecord* LastRun(const State& state, const JobRecord& job) {
  for (std::uint32_t number = job.attempts; number > 0; --number) {
    const auto found = state.attempts.find(Key{job.id, Attempt{number}});
    if (found != state.attempts.end() && found->second.started != WallTime{}) return &found->second;
  }
  return nullptr;
}

// Whether the attempt is likely to have left something there that the next one would find. What one
// of several nodes saves by itself is seen by no other, so it is never gone on from.
bool LeftSomething(const AttemptRecord& attempt) {
  if (!attempt.resumed_from.empty()) return true;
  return attempt.nodes.size() == 1 && RanFor(attempt) >= kTieFrom;
}

// Since when the node does not answer; absent: it does.
std::optional<BootTime> SilentSince(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  if (live == state.live.nodes.end()) return state.live.since;
  if (live->second.session && !live->second.silent) return std::nullopt;
  return std::max(live->second.silent_since, state.live.since);
}

// When a silent node is not waited for any more, where the job says how long that is.
std::optional<BootTime> LostAt(const State& state, JobId job, const NodeId& node) {
  const std::optional<Millis> asked = state.specs.at(job).spec.requeue_after;
  const std::optional<BootTime> since = SilentSince(state, node);
  if (!asked || !since) return std::nullopt;
  return *since + std::max(*asked, kTieWhileSilent);
}

bool IsGone(const State& state, const NodeId& node) {
  const auto record = state.nodes.find(node);
  return record == state.nodes.end() || !record->second.fenced_by.empty();
}

std::string BootOf(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  return live == state.live.nodes.end() ? "" : live->second.boot_id;
}

}  // namespace

std::optional<Tie> TieOf(const State& state, const JobRecord& job, BootTime now) {
  const CheckpointSpec& checkpoint = state.specs.at(job.id).spec.checkpoint;
  if (checkpoint.dir.empty() || !checkpoint.resume) return std::nullopt;
  const AttemptRecord* last = LastRun(state, job);
  if (last == nullptr || !last->local_checkpoints || !LeftSomething(*last)) return std::nullopt;
  const auto wait = state.live.ties.find(job.id);
  if (wait != state.live.ties.end() && wait->second.attempt == last->key.attempt &&
      wait->second.over) {
    return std::nullopt;
  }
  if (last->verdict && IsFaultOfNode(*last->verdict)) return std::nullopt;
  for (const NodeId& node : last->nodes) {
    const std::optional<BootTime> lost = LostAt(state, job.id, node);
    const auto avoided = job.excluded_nodes.find(node.value);
    // That it was lost or restarted is no reason to leave what is there.
    const bool cut_off = avoided != job.excluded_nodes.end() && WasUnreachable(avoided->second);
    if (IsGone(state, node) || cut_off) return std::nullopt;
    if (lost && *lost <= now) return std::nullopt;
  }
  return Tie{last->key.attempt, last->nodes};
}

void KeepToTie(const State& state, const JobRecord& job, const Tie& tie,
               std::vector<PlannerOffer>& offers) {
  const Key key{job.id, tie.attempt};
  for (PlannerOffer& offer : offers) {
    const NodeId& node = offer.inventory->node;
    const std::string boot = BootOf(state, node);
    const bool has_disk = std::ranges::any_of(tie.nodes, [&](const NodeId& one) {
      if (one == node) return true;
      const AllocRecord* alloc = FindAlloc(state, key, one);
      return alloc != nullptr && !boot.empty() && alloc->boot_id == boot;
    });
    if (!has_disk) offer.refuses = "its checkpoints are on a disk of " + Names(tie.nodes);
  }
}

std::optional<WaitReason> WaitForTie(Draft& draft, const JobRecord& job, const Tie& tie,
                                     const Unplaced& unplaced) {
  const State& state = draft.state();
  TieWait& wait = draft.live().ties[job.id];
  const bool begins = wait.attempt != tie.attempt;
  if (begins) wait = {tie.attempt, draft.now() + kTieKept, draft.now() + kTieKept, false};
  const auto give_up = [&](const std::string& why) -> std::optional<WaitReason> {
    wait.over = true;
    draft.Event("job.leaves_checkpoint", Subject(job.id),
                fmt::format("waits no longer for {}: {}; what it saved on a disk there is not seen "
                            "elsewhere",
                            Names(tie.nodes), why));
    return std::nullopt;
  };
  if (unplaced.never) return give_up("the job does not fit there any more");
  if (wait.last <= draft.now()) return give_up("it waited " + FormatDurationShort(kTieKept));
  wait.next = wait.last;
  for (const NodeId& node : tie.nodes) {
    if (const auto lost = LostAt(state, job.id, node)) wait.next = std::min(wait.next, *lost);
  }
  if (begins) {
    draft.Event("job.waits_for_checkpoint", Subject(job.id),
                fmt::format("for {}, whose disk has its checkpoints: {}", Names(tie.nodes),
                            unplaced.reason.evidence));
  }
  const std::string code = unplaced.reason.code.empty() ? "ReqNodeNotAvail" : unplaced.reason.code;
  return WaitReason{
      code, fmt::format("its checkpoints are on a disk of {}, so it waits {} at most before it "
                        "begins elsewhere from the first step: {}",
                        Names(tie.nodes), FormatDurationShort(kTieKept), unplaced.reason.evidence)};
}

void LoseTie(Draft& draft, const JobRecord& job) {
  const auto wait = draft.live().ties.find(job.id);
  if (wait == draft.live().ties.end() || wait->second.over) return;
  draft.live().ties.erase(wait);
  draft.Event("job.leaves_checkpoint", Subject(job.id),
              "its nodes are lost; what it saved on a disk there is not seen elsewhere");
}

void EndTies(Draft& draft) {
  for (auto& [job, wait] : draft.live().ties) {
    if (wait.over || wait.next > draft.now()) continue;
    wait.next = std::max(wait.last, draft.now() + kTieWhileSilent);  // its turn may not come now
    draft.TouchQueue();
  }
}

std::optional<BootTime> NextTieEnd(const State& state) {
  std::optional<BootTime> next;
  for (const auto& [job, wait] : state.live.ties) {
    if (!wait.over) next = std::min(next.value_or(wait.next), wait.next);
  }
  return next;
}

bool HaveOwnDisks(const std::vector<NodeId>& nodes, const std::map<NodeId, StagingFacts>& found) {
  return std::ranges::all_of(nodes, [&](const NodeId& node) {
    const std::vector<PathFact>& paths = found.at(node).paths;
    return std::ranges::find(paths, "local_disk", &PathFact::what) != paths.end();
  });
}

std::optional<Finding> TiesRetries(const State& state, const AttemptRecord& attempt) {
  const RetrySpec& retry = state.specs.at(attempt.key.job).spec.retry;
  const bool elsewhere = state.inventories.size() > attempt.nodes.size();
  if (!attempt.local_checkpoints || !elsewhere || retry.max == 0) return std::nullopt;
  return Finding{
      "checkpoint_local",
      Severity::kNotice,
      std::nullopt,
      fmt::format("checkpoint.dir is on a disk of {}: a retry waits {} for that before it "
                  "begins elsewhere from the first step",
                  Names(attempt.nodes), FormatDurationShort(kTieKept)),
      "",
      "name a directory that all nodes share, and it goes on anywhere"};
}

}  // namespace launch::controller
