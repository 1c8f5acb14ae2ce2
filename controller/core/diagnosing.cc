// Why an attempt failed: asked of a diagnosis worker once all its ranks are gone, kept with the
// attempt, and waited for, because what is done next depends on it.
#include <fmt/format.h>

#include <algorithm>

#include "controller/core/draft.h"
#include "diagnosis/verdict.h"

namespace launch::controller {
namespace {

// Causes that only we know (a lost node, a start that failed) are not in any log.
bool HasTellingLogs(const State& state, const AttemptRecord& attempt, const Ending& ending) {
  if (ending.blame == Blame::kNobody || ending.blame == Blame::kPlan) return false;
  if (!ending.first_failed_rank || !ending.first_failed_node) return false;
  const auto ranks = state.ranks.find(attempt.key);
  if (ranks == state.ranks.end()) return false;
  const auto first = ranks->second.find(*ending.first_failed_rank);
  if (first == ranks->second.end() || !first->second.exit) return false;
  const ExitCause& cause = first->second.exit->cause;
  return !std::holds_alternative<FailedToStart>(cause) &&
         !std::holds_alternative<UnknownEnd>(cause);
}

bool HasSession(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  return live != state.live.nodes.end() && live->second.session.has_value();
}

bool PlannedExpandableSegments(const State& state, const Key& key) {
  const auto plan = state.plans.find(key);
  if (plan == state.plans.end() || plan->second->plan.assignments.empty()) return false;
  return UsesExpandableSegments(plan->second->plan.assignments.front().env);
}

effect::DiagnosisWanted Question(const State& state, const AttemptRecord& attempt,
                                 const Ending& ending) {
  const bool expandable = PlannedExpandableSegments(state, attempt.key);
  std::vector<FailedRank> failed;
  for (const auto& [rank, record] : state.ranks.at(attempt.key)) {
    if (!record.exit || Succeeded(*record.exit)) continue;
    failed.push_back({record.node, *record.exit, expandable});
  }
  return {attempt.key, WorthReading(std::move(failed), ending.first_failed_rank, kRanksDiagnosed)};
}

std::string InWords(const Verdict& verdict) {
  return fmt::format("{} ({}){}{}: {}", verdict.label, ToString(verdict.confidence),
                     verdict.rank ? fmt::format(", rank {}", *verdict.rank) : "",
                     verdict.node ? " on " + verdict.node->value : "", verdict.cause);
}

}  // namespace

bool IsDiagnosed(Draft& draft, const AttemptRecord& attempt, const Ending& ending) {
  LiveAttempt& live = draft.live().attempts[attempt.key];
  if (attempt.verdict || live.diagnosed) return true;
  const JobRecord& job = draft.state().jobs.at(attempt.key.job);
  if (!job.cancelled_by.empty() || !HasTellingLogs(draft.state(), attempt, ending)) return true;
  if (!live.diagnosis_since) live.diagnosis_since = draft.now();
  const BootTime end = *live.diagnosis_since + kDiagnosisLimit;
  if (end <= draft.now()) return true;
  live.deadline = end;
  if (live.diagnosis_asked) return false;
  if (HasSession(draft.state(), *ending.first_failed_node)) {
    live.diagnosis_asked = true;
    draft.Diagnose(Question(draft.state(), attempt, ending));
  } else {  // we were started again a moment ago
    live.deadline = std::min(end, draft.now() + kLogsAgain);
  }
  return false;
}

// One that comes late is kept all the same: `why` shows it.
void OnDiagnosed(Draft& draft, const event::Diagnosed& event) {
  const auto found = draft.state().attempts.find(event.key);
  if (found == draft.state().attempts.end()) return;
  const bool waits = found->second.phase == AttemptPhase::kStopping;
  if (waits) {
    draft.live().attempts[event.key].diagnosed = true;
    draft.Touch(event.key.job);
  }
  if (found->second.verdict || !event.verdict || !IsFailure(*event.verdict)) return;
  if (!waits && found->second.phase != AttemptPhase::kEnded) return;
  AttemptRecord attempt = found->second;
  attempt.verdict = event.verdict;
  draft.Event("attempt.diagnosed", Subject(attempt.key), InWords(*attempt.verdict));
  draft.Put(attempt);
}

}  // namespace launch::controller
