// Why an attempt failed: asked of a diagnosis worker once all its ranks are gone, kept with the
// attempt, and waited for, because what is done next depends on it.
#include <fmt/format.h>

#include <algorithm>

#include "controller/core/draft.h"
#include "controller/core/hang_watch.h"
#include "controller/core/node_watch.h"
#include "controller/core/remedy_effects.h"
#include "diagnosis/labels.h"
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
  const std::map<Rank, RankRecord>& ranks = state.ranks.at(attempt.key);
  std::vector<FailedRank> failed;
  for (const auto& [rank, record] : ranks) {
    if (!record.exit || Succeeded(*record.exit)) continue;
    FailedRank one{record.node, *record.exit, expandable};
    one.ended = OurTimeOf(state, record);
    failed.push_back(std::move(one));
  }
  // Chosen before what their nodes know of them is looked for: thousands may have failed.
  failed = WorthReading(std::move(failed), ending.first_failed_rank, kRanksDiagnosed);
  for (FailedRank& one : failed) {
    const RankRecord& record = ranks.at(one.exit.rank);
    one.exit.kernel_lines = OwnKernelLines(state, attempt.key, record);
    one.seen = SeenOf(state, attempt.key, record);
  }
  return {.key = attempt.key, .ranks = std::move(failed), .secrets = {}, .env = {}};
}

void AddSecrets(const State& state, effect::DiagnosisWanted& wanted) {
  const JobId job = wanted.key.job;
  for (auto one = state.secrets.lower_bound({job, ""});
       one != state.secrets.end() && one->first.first == job; ++one) {
    wanted.secrets.emplace_back(one->first.second, one->second.sealed);
  }
  const auto plan = state.plans.find(wanted.key);
  if (plan != state.plans.end() && !plan->second->plan.assignments.empty()) {
    wanted.env = plan->second->plan.assignments.front().env;
  }
}

// The ranks stood still, and then one failed: its log may name the cause.
bool MayBeReplaced(const AttemptRecord& attempt) {
  return attempt.verdict && IsOfHang(*attempt.verdict) &&
         attempt.stop_cause == StopCause::kRankFailed;
}

bool NamesACause(const Verdict& verdict) {
  return verdict.confidence == Confidence::kLikely || verdict.confidence == Confidence::kConfirmed;
}

// The code of the first failing rank, where the job says that it asks for another attempt.
std::optional<int> CodeThatAsksAgain(const State& state, const AttemptRecord& attempt,
                                     const Verdict& verdict) {
  const auto ranks = state.ranks.find(attempt.key);
  if (!verdict.rank || ranks == state.ranks.end()) return std::nullopt;
  const auto rank = ranks->second.find(*verdict.rank);
  if (rank == ranks->second.end() || !rank->second.exit) return std::nullopt;
  const auto* exited = std::get_if<Exited>(&rank->second.exit->cause);
  const auto& codes = state.specs.at(attempt.key.job).spec.retry.recover_on_exit_codes;
  if (exited == nullptr || std::find(codes.begin(), codes.end(), exited->code) == codes.end()) {
    return std::nullopt;
  }
  return exited->code;
}

// What no log explains is no riddle where the job itself says what the exit code means.
void ExplainByExitCode(const State& state, const AttemptRecord& attempt, Verdict& verdict) {
  if (verdict.label != "unknown") return;
  const auto code = CodeThatAsksAgain(state, attempt, verdict);
  if (!code) return;
  verdict.cause = fmt::format(
      "The program ended with exit code {}, which asks for another attempt "
      "(retry.recover_on_exit_codes)",
      *code);
  verdict.remedy = "retry.max says how often; a newer checkpoint each time keeps it going";
}

}  // namespace

std::string InWords(const Verdict& verdict) {
  return fmt::format("{} ({}){}{}: {}", verdict.label, ToString(verdict.confidence),
                     verdict.rank ? fmt::format(", rank {}", *verdict.rank) : "",
                     verdict.node ? " on " + verdict.node->value : "", verdict.cause);
}

bool IsDiagnosed(Draft& draft, const AttemptRecord& attempt, const Ending& ending) {
  LiveAttempt& live = draft.live().attempts[attempt.key];
  if ((attempt.verdict && !MayBeReplaced(attempt)) || live.diagnosed) return true;
  const JobRecord& job = draft.state().jobs.at(attempt.key.job);
  if (!job.cancelled_by.empty() || !HasTellingLogs(draft.state(), attempt, ending)) return true;
  if (!live.diagnosis_since) live.diagnosis_since = draft.now();
  const BootTime end = *live.diagnosis_since + kDiagnosisLimit;
  if (end <= draft.now()) return true;
  live.deadline = end;
  if (live.diagnosis_asked) return false;
  if (HasSession(draft.state(), *ending.first_failed_node)) {
    live.diagnosis_asked = true;
    effect::DiagnosisWanted wanted = Question(draft.state(), attempt, ending);
    AddSecrets(draft.state(), wanted);
    draft.Diagnose(std::move(wanted));
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
  if (!event.verdict || !IsFailure(*event.verdict)) return;
  const bool better = MayBeReplaced(found->second) && NamesACause(*event.verdict);
  if (found->second.verdict && !better) return;
  if (!waits && found->second.phase != AttemptPhase::kEnded) return;
  AttemptRecord attempt = found->second;
  attempt.verdict = event.verdict;
  ExplainByExitCode(draft.state(), attempt, *attempt.verdict);
  NameJob(event.key.job, *attempt.verdict);
  if (const auto plan = draft.state().plans.find(event.key); plan != draft.state().plans.end()) {
    const JobSpec& spec = draft.state().specs.at(event.key.job).spec;
    const PlanChange& so_far = draft.state().jobs.at(event.key.job).change;
    const std::string effects =
        EffectsOfRemedies(spec, plan->second->plan, so_far, *attempt.verdict);
    if (!effects.empty()) attempt.verdict->remedy += "; in this order: " + effects;
  }
  draft.Event("attempt.diagnosed", Subject(attempt.key), InWords(*attempt.verdict));
  draft.Put(attempt);
}

}  // namespace launch::controller
