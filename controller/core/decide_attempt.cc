// What follows from the facts about one job's newest attempt; one transition per call. Before its
// start: decide_start.cc.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/planted.h"
#include "common/units.h"
#include "controller/core/attempt_facts.h"
#include "controller/core/kept_place.h"
#include "controller/core/unknown_attempts.h"

namespace launch::controller {
namespace {

// The first rank, in order of arrival, whose end is not a success.
const RankRecord* FirstFailure(const State& state, const Facts& facts) {
  const auto ranks = state.ranks.find(facts.attempt.key);
  if (ranks == state.ranks.end()) return nullptr;
  const auto failed = [](const RankRecord& record) {
    return record.exit && !Succeeded(*record.exit);
  };
  for (const Rank rank : facts.live.exit_order) {
    const auto found = ranks->second.find(rank);
    if (found != ranks->second.end() && failed(found->second)) return &found->second;
  }
  for (const auto& [rank, record] : ranks->second) {
    if (failed(record)) return &record;
  }
  return nullptr;
}

bool AllRanksSucceeded(const State& state, const Facts& facts) {
  const auto ranks = state.ranks.find(facts.attempt.key);
  if (ranks == state.ranks.end()) return false;
  return AllOf(facts, [&](const AllocRecord& alloc) {
    return std::all_of(alloc.ranks.begin(), alloc.ranks.end(), [&](Rank rank) {
      const auto found = ranks->second.find(rank);
      return found != ranks->second.end() && found->second.exit && Succeeded(*found->second.exit);
    });
  });
}

Ending SuccessEnding() {
  Ending ending;
  ending.outcome = "success";
  ending.state = JobState::kSucceeded;
  ending.exit_code = 0;
  return ending;
}

// All ranks came to their end without a TERM: between the signal and the limit, or on a node that
// was taken for lost and came back with the proof.
bool EndedByThemselves(const State& state, const Facts& facts) {
  const StopCause cause = facts.attempt.stop_cause;
  if (cause != StopCause::kTimeLimit && cause != StopCause::kNodeLost) return false;
  if (!AllRanksSucceeded(state, facts)) return false;
  return std::ranges::none_of(state.ranks.at(facts.attempt.key), [](const auto& rank) {
    return std::ranges::any_of(rank.second.exit->our_signals, [](const OurSignal& sent) {
      return sent.signal == SIGTERM || sent.signal == SIGKILL;
    });
  });
}

// A rank that ended had started: its report may overtake the Started of a slower node.
bool HasStarted(const State& state, const AllocRecord& alloc) {
  if (alloc.phase == StoredAllocPhase::kStarted || alloc.phase == StoredAllocPhase::kExited) {
    return true;
  }
  const auto ranks = state.ranks.find(alloc.key);
  if (ranks == state.ranks.end()) return false;
  return std::all_of(alloc.ranks.begin(), alloc.ranks.end(), [&](Rank rank) {
    const auto found = ranks->second.find(rank);
    return found != ranks->second.end() && found->second.exit;
  });
}

}  // namespace

std::string Names(const std::vector<NodeId>& nodes) {
  std::string names;
  for (const NodeId& node : nodes) names += (names.empty() ? "" : ", ") + node.value;
  return names;
}

std::optional<NodeId> OnlyOne(const std::vector<NodeId>& nodes) {
  return nodes.size() == 1 ? std::optional(nodes.front()) : std::nullopt;
}

Ending CancelledEnding(const JobRecord& job) {
  Ending ending;
  ending.outcome = "cancelled";
  ending.state = JobState::kCancelled;
  ending.text = "cancelled by " + job.cancelled_by;
  return ending;
}

Ending StartFailed(std::optional<NodeId> node, std::string text) {
  Ending ending;
  ending.outcome = "start_failed";
  ending.state = JobState::kNodeFail;
  ending.sub_reason = "START";
  ending.text = std::move(text);
  ending.blame = Blame::kInfrastructure;
  ending.first_failed_node = std::move(node);
  return ending;
}

void BeginStop(Draft& draft, const Facts& facts, StopCause cause, std::string text,
               std::optional<NodeId> node) {
  AttemptRecord attempt = facts.attempt;
  attempt.phase = AttemptPhase::kStopping;
  attempt.stop_cause = cause;
  attempt.cause = std::move(text);
  if (node) attempt.first_failed_node = std::move(node);
  if (cause == StopCause::kRankFailed || cause == StopCause::kNodeLost) {
    if (const RankRecord* first = FirstFailure(draft.state(), facts)) {
      attempt.first_failed_rank = first->rank;
      attempt.first_failed_node = first->node;
    }
  }
  facts.live.deadline.reset();
  facts.live.stop_began = draft.now();
  draft.live().time_limits.erase(facts.job.id);
  draft.Event("attempt.stopping", Subject(attempt.key), attempt.cause);
  draft.Put(attempt);
  KeepPlace(draft, facts, cause);
}

namespace {

void StopForFailure(Draft& draft, const Facts& facts, const RankRecord& first) {
  const bool cut_off = EndedByLease(*first.exit);
  const bool lost = cut_off || std::holds_alternative<UnknownEnd>(first.exit->cause);
  BeginStop(draft, facts, lost ? StopCause::kNodeLost : StopCause::kRankFailed,
            fmt::format("rank {} on {}: {}{}", first.rank, first.node.value,
                        Describe(first.exit->cause), cut_off ? kLeaseWords : ""));
}

// A node gave an allocation back that nobody stopped, without the ends of its ranks.
bool StopIfGivenBack(Draft& draft, const Facts& facts) {
  for (const auto& [node, alloc] : facts.allocs) {
    if (!IsReleased(alloc) || HasStarted(draft.state(), alloc)) continue;
    BeginStop(draft, facts, StopCause::kNodeLost,
              node.value + " gave the allocation back without the end of its ranks", node);
    return true;
  }
  return false;
}

bool StopIfAsked(Draft& draft, const Facts& facts) {
  if (!facts.job.cancelled_by.empty() && !Planted(Bug::kForgottenCancel)) {
    BeginStop(draft, facts, StopCause::kCancelled, "cancelled by " + facts.job.cancelled_by);
    return true;
  }
  if (!IsRequeued(facts.job)) return false;
  BeginStop(draft, facts, StopCause::kPreempted, WhyRequeued(facts.job));
  return true;
}

bool StopIfHung(Draft& draft, const Facts& facts) {
  const HangSpec& hang = draft.state().specs.at(facts.job.id).spec.hang;
  if (!facts.live.hang.judged || hang.action != HangAction::kRestart) return false;
  if (!facts.attempt.verdict) return false;
  BeginStop(draft, facts, StopCause::kHang, "it hangs: " + facts.attempt.verdict->cause,
            facts.attempt.verdict->node);
  return true;
}

void SettleLaunching(Draft& draft, const Facts& facts) {
  const State& state = draft.state();
  if (StopIfAsked(draft, facts)) return;
  if (const RankRecord* first = FirstFailure(state, facts)) {
    StopForFailure(draft, facts, *first);
    return;
  }
  if (facts.attempt.stop_cause == StopCause::kStartFailed) {
    BeginStop(draft, facts, StopCause::kStartFailed, facts.attempt.cause);
    return;
  }
  if (!facts.live.lost.empty()) {
    const auto& [node, why] = *facts.live.lost.begin();
    BeginStop(draft, facts, StopCause::kStartFailed, node.value + " " + why, node);
    return;
  }
  if (StopIfGivenBack(draft, facts)) return;
  const auto started = [&](const AllocRecord& alloc) { return HasStarted(state, alloc); };
  if (AllOf(facts, started)) {
    AttemptRecord attempt = facts.attempt;
    attempt.phase = AttemptPhase::kRunning;
    attempt.started = draft.wall();
    attempt.started_boot = draft.now();
    attempt.started_host_boot = draft.live().host_boot;
    JobRecord job = facts.job;
    if (job.started == WallTime{}) job.started = draft.wall();
    draft.TouchQueue();  // others may wait for its start
    facts.live.deadline.reset();
    draft.Event("attempt.running", Subject(attempt.key), "");
    draft.Put(attempt);
    draft.Put(job);
    ArmTimeLimit(draft.live(), state, job.id, draft.clock());
    return;
  }
  if (!facts.live.deadline) facts.live.deadline = draft.now() + kStartLimit;
  if (*facts.live.deadline > draft.now()) return;
  const std::vector<NodeId> late =
      NodesWhere(facts, [&](const AllocRecord& alloc) { return !started(alloc); });
  BeginStop(draft, facts, StopCause::kStartFailed,
            fmt::format("{} did not start its ranks within {} s", Names(late),
                        kStartLimit.count() / 1000),
            OnlyOne(late));
}

void SettleRunning(Draft& draft, const Facts& facts) {
  const State& state = draft.state();
  if (AllRanksSucceeded(state, facts)) {  // before the cancel: a success that was there first stays
    const Ending ending = SuccessEnding();
    draft.live().time_limits.erase(facts.job.id);
    EndAttempt(draft, facts.attempt.key, ending);
    return;
  }
  if (StopIfAsked(draft, facts)) return;
  if (const RankRecord* first = FirstFailure(state, facts)) {
    StopForFailure(draft, facts, *first);
    return;
  }
  if (StopIfGivenBack(draft, facts) || StopIfHung(draft, facts)) return;
  const auto limit = draft.live().time_limits.find(facts.job.id);
  if (limit != draft.live().time_limits.end() && limit->second <= draft.now()) {
    const JobSpec& spec = state.specs.at(facts.job.id).spec;
    std::string text =
        fmt::format("the time limit of {} was reached", FormatDurationShort(*spec.time_limit));
    if (const Millis lead = SignalLead(spec); lead > Millis{0}) {
      text += fmt::format("; signal {} was sent {} s before it", *spec.checkpoint.signal,
                          lead.count() / 1000);
    }
    BeginStop(draft, facts, StopCause::kTimeLimit, std::move(text));
  }
}

void SettleStopping(Draft& draft, const Facts& facts) {
  const bool stays = facts.job.cancelled_by.empty() && !IsRequeued(facts.job);
  if (facts.job.keeps != 0 && !stays) {  // what is released already is free for others
    draft.TouchQueue();
  }
  if (!AllOf(facts, [](const AllocRecord& alloc) { return IsReleased(alloc); })) return;
  if (EndedByThemselves(draft.state(), facts)) {
    EndAttempt(draft, facts.attempt.key, SuccessEnding());
    return;
  }
  const Ending ending = JudgeAttempt(draft.state(), facts.attempt);
  if (!IsDiagnosed(draft, facts.attempt, ending)) return;
  EndAttempt(draft, facts.attempt.key, ending);
}

}  // namespace

void SettleJob(Draft& draft, JobId id) {
  const State& state = draft.state();
  const auto found = state.jobs.find(id);
  if (found == state.jobs.end()) return;
  if (found->second.phase == JobPhase::kQueued && !found->second.cancelled_by.empty()) {
    EndJob(draft, found->second, CancelledEnding(found->second));
    return;
  }
  if (found->second.phase != JobPhase::kActive) return;
  const Key key{id, Attempt{found->second.attempts}};
  const AttemptRecord attempt = state.attempts.at(key);  // copies of what the transition replaces
  // Drawn from what is known now, not from the Hello that said it: the store may have refused that.
  if (attempt.phase == AttemptPhase::kPreparing && IsClaimedBeside(state, key)) {
    RequeueForNewer(draft, id);
  }
  const JobRecord job = state.jobs.at(id);
  const Facts facts{job, attempt, state.allocs.at(key), draft.live().attempts[key]};
  switch (attempt.phase) {
    case AttemptPhase::kPreparing:
      SettlePreparing(draft, facts);
      break;
    case AttemptPhase::kLaunching:
      SettleLaunching(draft, facts);
      break;
    case AttemptPhase::kRunning:
      SettleRunning(draft, facts);
      break;
    case AttemptPhase::kStopping:
      SettleStopping(draft, facts);
      break;
    case AttemptPhase::kEnded:
      break;
  }
}

}  // namespace launch::controller
