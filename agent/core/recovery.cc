// What an agent makes of the attempt directories it finds at its start.
#include <algorithm>

#include "agent/core/agent_core.h"
#include "agent/core/step_scope.h"

namespace launch::agent {
namespace {

bool AnyStarted(const FoundAllocation& found) {
  return std::ranges::any_of(found.status.ranks, [](const RankStatus& r) { return r.started; });
}

bool AllStarted(const FoundAllocation& found) {
  return std::ranges::all_of(found.status.ranks, [](const RankStatus& r) { return r.started; });
}

Allocation Read(const FoundAllocation& found, BootTime now) {
  Allocation allocation{.digest = found.status.digest,
                        .spec = found.spec,
                        .ports = found.status.ports,
                        .gpus = found.status.gpus,
                        .accepted_at = now};
  if (found.spec)
    for (const RankSpec& rank : found.spec->ranks) allocation.ranks[rank.rank];
  for (const RankStatus& rank : found.status.ranks)
    allocation.ranks[rank.rank] = {.started = rank.started, .pid = rank.pid, .exit = rank.exit};
  for (const Rank rank : found.acked) allocation.ranks[rank].acked = true;
  // One that cannot be read is not extended: its shims know its end.
  if (found.spec && found.spec->lease && AnyStarted(found)) {
    allocation.lease_end = found.lease_end.value_or(now);
    allocation.lease_unread = !found.lease_end;
  }
  return allocation;
}

// Takes over one attempt directory. Ends that no record proves are `unknown`, never invented.
void Adopt(StepScope& scope, AgentState& state, const FoundAllocation& found, BootTime now) {
  const Key& key = found.status.key;
  Allocation& allocation = state.allocations[key] = Read(found, now);
  if (found.unreadable || (!found.spec && !found.tombstone)) {
    allocation.phase = Phase::kUnreadable;
    const std::string why = found.path + ": " + found.why;
    for (const GpuUuid& gpu : allocation.gpus) allocation.held.emplace_back(gpu, why);
    state.notices.push_back({.kind = "node.attempt_unreadable", .key = key, .text = why});
    return;
  }
  const bool same_boot = found.boot_id.empty() || found.boot_id == state.identity.boot_id;
  const auto end_ranks = [&](bool started, const ExitCause& cause) {
    for (const auto& [rank, rank_state] : allocation.ranks)
      if (rank_state.started == started && !rank_state.exit && !rank_state.acked)
        scope.EndRank(key, allocation, MakeReport(state, key, rank, cause, now));
  };
  if (!found.alive) {
    end_ranks(true, UnknownEnd{same_boot ? "supervisor and rank gone" : "node rebooted"});
    if (found.status.phase == AllocationPhase::kReleased) {
      allocation.phase = Phase::kReleased;
      scope.AskLogEnds(key);
      return;
    }
    if (found.status.phase == AllocationPhase::kDropped) {
      allocation.phase = Phase::kDropped;
      return;
    }
    if (!AnyStarted(found) && !found.tombstone) {
      allocation.phase = Phase::kAccepted;
      if (!same_boot) scope.DropUnstarted(key, allocation, "the node rebooted");
      return;
    }
  }
  allocation.phase = Phase::kStarted;
  if (found.tombstone) {  // the ladder was interrupted: it goes on, or begins again
    const FoundStop again{AllStarted(found) ? StopCause::kStale : StopCause::kStartFailed,
                          found.spec ? found.spec->stop.grace : Millis{0}};
    const FoundStop stop = found.stop.value_or(again);
    scope.BeginStop(key, allocation, stop.cause, stop.grace);
    return;
  }
  if (!AllStarted(found)) {  // a half-spawned allocation is never completed
    end_ranks(false, FailedToStart{"agent_restarted", 0, "the agent restarted during the start"});
    scope.BeginStop(key, allocation, StopCause::kStartFailed, Millis{0});
    return;
  }
  scope.StopWhenAllEnded(key, allocation);
}

}  // namespace

Recovery Recover(AgentIdentity identity, const RunnerState& found, BootTime now) {
  Recovery recovery;
  AgentState& state = recovery.state;
  state.identity = std::move(identity);
  state.fence = found.fence;
  state.cgroups = found.cgroups;
  state.link.last_pong = now;
  for (const Key& floor : found.floors) {
    Attempt& attempt = state.floors[floor.job];
    attempt = std::max(attempt, floor.attempt);
  }
  StepScope scope(state, now);
  for (const FoundAllocation& allocation : found.allocations) {
    Attempt& floor = state.floors[allocation.status.key.job];
    floor = std::max(floor, allocation.status.key.attempt);
    Adopt(scope, state, allocation, now);
  }
  recovery.orders = scope.TakeOrders();
  return recovery;
}

}  // namespace launch::agent
