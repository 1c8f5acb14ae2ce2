// What the runner answers about an allocation, and how an allocation ends.
#include <algorithm>

#include "agent/core/step_scope.h"

namespace launch::agent {
namespace {

std::string RefusalCode(const Error& error) {
  switch (error.code) {
    case ErrorCode::kConflict:
    case ErrorCode::kAlreadyExists:
      return "gpu_busy";
    case ErrorCode::kResourceExhausted:
      return "disk_full";
    case ErrorCode::kUnavailable:
      return "port_busy";
    case ErrorCode::kPreflightFailed:
      return "no_account";
    default:
      return "accept_failed";
  }
}

}  // namespace

bool HoldsGpus(Phase phase) { return phase != Phase::kReleased && phase != Phase::kDropped; }

bool AllEnded(const Allocation& allocation) {
  return !allocation.ranks.empty() && std::ranges::all_of(allocation.ranks, [](const auto& entry) {
    return entry.second.exit.has_value() || entry.second.acked;
  });
}

ExitReport MakeReport(const AgentState& state, const Key& key, Rank rank, ExitCause cause,
                      BootTime now) {
  return ExitReport{.key = key,
                    .rank = rank,
                    .boot_id = state.identity.boot_id,
                    .cause = std::move(cause),
                    .started = now,
                    .ended = now};
}

void StepScope::SendAccepted(const Key& key, const Allocation& allocation) {
  Send(from_node::Accepted{.key = key,
                           .digest = allocation.digest,
                           .ports = allocation.ports,
                           .leased = allocation.spec && allocation.spec->lease.has_value()});
}

void StepScope::SendStarted(const Key& key, const Allocation& allocation) {
  from_node::Started started{.key = key};
  for (const auto& [rank, rank_state] : allocation.ranks)
    if (rank_state.started) started.pids.emplace_back(rank, rank_state.pid);
  Send(std::move(started));
}

void StepScope::SendReleased(const Key& key, const Allocation& allocation) {
  Send(from_node::Released{.key = key, .held = allocation.held, .log_ends = allocation.log_ends});
}

void StepScope::BeginStop(const Key& key, Allocation& allocation, StopCause cause, Millis grace) {
  allocation.secrets.reset();
  // The first cause names the end; a later, more urgent stop only shortens the grace.
  if (allocation.phase != Phase::kStopping || allocation.stop_cause == StopCause::kNone)
    allocation.stop_cause = cause;
  allocation.stop_grace = grace;
  allocation.phase = Phase::kStopping;
  RaiseFloor(key);
  Give(order::StopAllocation{.key = key,
                             .cause = allocation.stop_cause,
                             .grace = grace,
                             .at_once = allocation.stop_at_once});
}

void StepScope::EndRank(const Key& key, Allocation& allocation, const ExitReport& report) {
  RankState& rank = allocation.ranks[report.rank];
  if (rank.acked) {  // the runner lost the note
    Give(order::NoteAcked{.key = key, .rank = report.rank});
    return;
  }
  if (rank.exit) return;
  rank.exit = report;
  Send(from_node::RankExited{report});
  if (!state_.link.welcomed) return;
  state_.link.next_resend = std::max(state_.link.next_resend, now_ + kResend);
}

// Ranks that ended by themselves may have left processes behind: the free proof kills and counts.
void StepScope::StopWhenAllEnded(const Key& key, Allocation& allocation) {
  const bool runs = allocation.phase == Phase::kStarting || allocation.phase == Phase::kStarted;
  if (runs && AllEnded(allocation)) BeginStop(key, allocation, StopCause::kNone, Millis{0});
}

void StepScope::DropUnstarted(const Key& key, Allocation& allocation, std::string why) {
  allocation.phase = Phase::kDropped;
  allocation.secrets.reset();
  allocation.facts.reset();
  Give(order::Drop{.key = key, .why = std::move(why)});
}

void StepScope::On(const told::AcceptDone& event) {
  const auto found = state_.allocations.find(event.key);
  if (found == state_.allocations.end()) return;
  Allocation& allocation = found->second;
  if (event.ports) allocation.ports = *event.ports;
  if (allocation.phase != Phase::kAccepting) return;
  if (!event.ports) {
    const std::string digest = allocation.digest;
    // What a drop still has to end is there: this is no word that nothing is held. A Stop fetches
    // the proof.
    const bool left = event.ports.error().code == ErrorCode::kFailedPrecondition;
    if (left || allocation.was_dropped) {  // its directory is there until a Forget
      allocation.phase = Phase::kDropped;
    } else {
      state_.allocations.erase(found);
    }
    Refuse(event.key, digest,
           {left ? "accept again" : "accept", RefusalCode(event.ports.error()),
            event.ports.error().message});
    return;
  }
  RaiseFloor(event.key);
  allocation.phase = Phase::kAccepted;
  allocation.accepted_at = now_;
  SendAccepted(event.key, allocation);
}

void StepScope::On(const told::StageDone& event) {
  const auto found = state_.allocations.find(event.key);
  if (found == state_.allocations.end() || found->second.phase != Phase::kStaging) return;
  found->second.phase = Phase::kReady;
  found->second.facts = event.facts;
  Send(from_node::Ready{.key = event.key, .digest = found->second.digest, .facts = event.facts});
}

void StepScope::On(const told::StageProgress& event) {
  Send(from_node::Staging{.key = event.key, .step = event.step, .line = event.line});
}

void StepScope::On(const told::StartDone& event) {
  const auto found = state_.allocations.find(event.key);
  if (found == state_.allocations.end()) return;
  Allocation& allocation = found->second;
  for (const auto& [rank, pid] : event.pids) {
    allocation.ranks[rank].started = true;
    allocation.ranks[rank].pid = pid;
  }
  if (event.failed) allocation.start_failed = event.failed;
  if (allocation.phase != Phase::kStarting) return;
  if (!event.failed) {
    allocation.phase = Phase::kStarted;
    SendStarted(event.key, allocation);
    StopWhenAllEnded(event.key, allocation);
    return;
  }
  BeginStop(event.key, allocation, StopCause::kStartFailed, Millis{0});
}

void StepScope::On(const told::RankEnded& event) {
  const auto found = state_.allocations.find(event.report.key);
  if (found == state_.allocations.end()) return;
  EndRank(event.report.key, found->second, event.report);
  StopWhenAllEnded(event.report.key, found->second);
}

// Nothing is left, so a started rank without a record has lost it for good, and what was not
// started beside a failed start never will be.
void StepScope::EndWithoutRecord(const Key& key, Allocation& allocation) {
  for (const auto& [rank, rank_state] : allocation.ranks) {
    if (rank_state.exit || rank_state.acked) continue;
    if (rank_state.started)
      EndRank(key, allocation,
              MakeReport(state_, key, rank, UnknownEnd{"no exit record was left"}, now_));
    else if (allocation.start_failed)
      EndRank(key, allocation, MakeReport(state_, key, rank, *allocation.start_failed, now_));
  }
}

void StepScope::On(const told::StopDone& event) {
  const auto found = state_.allocations.find(event.key);
  if (found == state_.allocations.end()) return;
  Allocation& allocation = found->second;
  // Of what has no record the runner can see that it is gone, and no more.
  if (allocation.phase != Phase::kStopping && allocation.phase != Phase::kReleased &&
      allocation.phase != Phase::kUnreadable)
    return;
  // The proof does not know what was given back, and names it as well.
  std::vector<std::pair<GpuUuid, std::string>> still_held = event.held;
  std::erase_if(still_held,
                [&](const auto& entry) { return allocation.given_back.contains(entry.first); });
  const bool again = allocation.phase == Phase::kReleased && allocation.held == still_held &&
                     allocation.log_ends == event.log_ends;
  if (event.held.empty()) EndWithoutRecord(event.key, allocation);
  for (const GpuUuid& gpu : allocation.gpus)
    if (allocation.phase == Phase::kStopping) state_.released_at[gpu] = now_;
  allocation.phase = Phase::kReleased;
  allocation.held = std::move(still_held);
  allocation.log_ends = event.log_ends;
  allocation.retry_at = now_ + kProofRetry;
  if (!again) SendReleased(event.key, allocation);
  ForgetWhenDone(event.key);
}

void StepScope::On(const told::StacksCollected& event) { Send(from_node::Stacks{event.stacks}); }

}  // namespace launch::agent
