// Everything that happens because time passed. The loop empties its mailbox before it posts a Tick,
// so that a stall of ours is not taken for the silence of others.
#include <algorithm>

#include "common/planted.h"
#include "controller/core/attempt_facts.h"
#include "controller/core/checkpoint_tie.h"
#include "controller/core/kept_place.h"

namespace launch::controller {
namespace {

// When an unanswered Stop is sent again; absent while its node has no session (then its Hello
// will).
std::optional<BootTime> StopDue(const State& state, const Key& key, const NodeId& node,
                                const Asked& asked) {
  if (asked.what != Demand::kStop) return std::nullopt;
  const auto live = state.live.nodes.find(node);
  if (live == state.live.nodes.end() || live->second.session != asked.session) return std::nullopt;
  const AllocRecord* alloc = FindAlloc(state, key, node);
  if (alloc == nullptr || IsReleased(*alloc)) return std::nullopt;
  return asked.at + state.specs.at(key.job).spec.stop_duration + kAskAgain;
}

}  // namespace

Millis SignalLead(const JobSpec& spec) {
  if (!spec.checkpoint.signal) return Millis{0};
  const Millis lead = spec.checkpoint.signal_before;
  return std::min(lead, spec.time_limit.value_or(lead));
}

// The wall clock, which may have jumped, is asked only when this host was booted since.
Millis RunTime(const AttemptRecord& attempt, const Live& live, const Now& now) {
  if (attempt.started == WallTime{}) return Millis{0};
  const bool same_boot = !attempt.started_host_boot.empty() &&
                         attempt.started_host_boot == live.host_boot &&
                         !Planted(Bug::kWallTimeLimit);
  const Millis ran = same_boot ? now.boot - attempt.started_boot : now.wall - attempt.started;
  return std::max(Millis{0}, ran);
}

void ArmTimeLimit(Live& live, const State& state, JobId job, const Now& now) {
  const std::optional<Millis> limit = state.specs.at(job).spec.time_limit;
  const auto attempt = state.attempts.find(Key{job, Attempt{state.jobs.at(job).attempts}});
  if (!limit || attempt == state.attempts.end()) return;
  if (attempt->second.phase != AttemptPhase::kRunning) return;
  const Millis used = std::min(RunTime(attempt->second, live, now), *limit);
  // The ranks are told before: TERM comes at the limit itself.
  const Millis stop_at = std::max(Millis{0}, *limit - SignalLead(state.specs.at(job).spec));
  live.time_limits[job] = now.boot + std::max(Millis{0}, stop_at - used);
}

void OnTick(Draft& draft) {
  const State& state = draft.state();
  for (auto& [node, live] : draft.live().nodes) {
    if (live.session && !live.silent && live.heard + kSilentAfter < draft.now()) {
      MarkSilent(draft, node, live, true, "no beat");
    }
    if (live.session && live.unheard.IsOver(draft.now()))
      MarkSilent(draft, node, live, true, kUnansweredWords);
    bool offers_again = live.turned_away && live.turned_away->until <= draft.now();
    if (offers_again) live.turned_away.reset();
    offers_again =
        std::erase_if(live.busy_gpus,
                      [&](const auto& busy) { return busy.second.until <= draft.now(); }) > 0 ||
        offers_again;
    if (offers_again) draft.TouchQueue();
  }
  if (state.live.awaits_nodes && state.live.since + kReturnTime <= draft.now()) {
    draft.live().awaits_nodes = false;
    draft.TouchQueue();
  }
  if (state.live.read_again && *state.live.read_again <= draft.now()) draft.TouchQueue();
  EndLeases(draft);
  if (HasLostPlace(state, draft.now())) draft.TouchQueue();
  EndTies(draft);
  for (const auto& [key, live] : state.live.attempts) {
    if (live.deadline && *live.deadline <= draft.now()) draft.Touch(key.job);
    for (const auto& [node, asked] : live.asked) {
      const std::optional<BootTime> due = StopDue(state, key, node, asked);
      if (due && *due <= draft.now()) draft.Touch(key.job);
    }
  }
  for (const auto& [job, limit] : state.live.time_limits) {
    if (limit <= draft.now()) draft.Touch(job);
  }
  for (auto entry = draft.live().not_before.begin(); entry != draft.live().not_before.end();) {
    if (entry->second <= draft.now()) {
      entry = draft.live().not_before.erase(entry);
      draft.TouchQueue();
    } else {
      ++entry;
    }
  }
}

std::optional<BootTime> NextDeadline(const State& state) {
  std::optional<BootTime> next;
  const auto consider = [&](BootTime at) { next = std::min(next.value_or(at), at); };
  for (const auto& [node, live] : state.live.nodes) {
    if (live.session && !live.silent) {
      consider(live.heard + kSilentAfter + Millis{1});
      if (const std::optional<BootTime> over = live.unheard.OverAt()) consider(*over + Millis{1});
    }
    if (live.turned_away) consider(live.turned_away->until);
    for (const auto& [gpu, busy] : live.busy_gpus) consider(busy.until);
  }
  for (const auto& [key, live] : state.live.attempts) {
    if (live.deadline) consider(*live.deadline);
    for (const auto& [node, asked] : live.asked) {
      if (const std::optional<BootTime> due = StopDue(state, key, node, asked)) consider(*due);
    }
  }
  if (state.live.awaits_nodes) consider(state.live.since + kReturnTime);
  if (state.live.read_again) consider(*state.live.read_again);
  if (const std::optional<BootTime> lost = NextPlaceLost(state)) consider(*lost);
  if (const std::optional<BootTime> tie = NextTieEnd(state)) consider(*tie);
  if (const std::optional<BootTime> lease = NextLeaseEnd(state)) consider(*lease);
  for (const auto& [job, limit] : state.live.time_limits) consider(limit);
  for (const auto& [job, at] : state.live.not_before) consider(at);
  return next;
}

}  // namespace launch::controller
