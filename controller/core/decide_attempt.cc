// What follows from the facts about one job's newest attempt; one transition per call.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/planted.h"
#include "controller/core/draft.h"
#include "preflight/preflight.h"

namespace launch::controller {
namespace {

struct Facts {  // of one attempt, in one look
  const JobRecord& job;
  const AttemptRecord& attempt;
  const std::map<NodeId, AllocRecord>& allocs;
  LiveAttempt& live;
};

bool AllOf(const Facts& facts, auto predicate) {
  return std::all_of(facts.allocs.begin(), facts.allocs.end(),
                     [&](const auto& entry) { return predicate(entry.second); });
}

std::vector<NodeId> NodesWhere(const Facts& facts, auto predicate) {
  std::vector<NodeId> nodes;
  for (const auto& [node, alloc] : facts.allocs) {
    if (predicate(alloc)) nodes.push_back(node);
  }
  return nodes;
}

std::string Names(const std::vector<NodeId>& nodes) {
  std::string names;
  for (const NodeId& node : nodes) names += (names.empty() ? "" : ", ") + node.value;
  return names;
}

// When several fail in the same way, the reason is not one of them.
std::optional<NodeId> OnlyOne(const std::vector<NodeId>& nodes) {
  return nodes.size() == 1 ? std::optional(nodes.front()) : std::nullopt;
}

// The first rank, in order of arrival, whose end is not a success.
const RankRecord* FirstFailure(const State& state, const Facts& facts) {
  const auto ranks = state.ranks.find(facts.attempt.key);
  if (ranks == state.ranks.end()) return nullptr;
  const auto failed = [&](Rank rank) -> const RankRecord* {
    const auto found = ranks->second.find(rank);
    if (found == ranks->second.end() || !found->second.exit) return nullptr;
    return Succeeded(*found->second.exit) ? nullptr : &found->second;
  };
  for (const Rank rank : facts.live.exit_order) {
    if (const RankRecord* record = failed(rank)) return record;
  }
  for (const auto& [rank, record] : ranks->second) {
    if (failed(rank) != nullptr) return &record;
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

Ending CancelledEnding(const JobRecord& job) {
  Ending ending;
  ending.outcome = "cancelled";
  ending.state = JobState::kCancelled;
  ending.text = "cancelled by " + job.cancelled_by;
  return ending;
}

Ending RequeuedEnding(const JobRecord& job) {
  Ending ending;
  ending.outcome = "preempted";
  ending.state = JobState::kPreempted;
  ending.text = "requeued by " + job.requeued_by;
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

// To `stopping`: nodes are told by ask.cc; the first cause names the outcome, `node` whose fault it
// is where no rank tells.
void BeginStop(Draft& draft, const Facts& facts, StopCause cause, std::string text,
               std::optional<NodeId> node = std::nullopt) {
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
  draft.live().time_limits.erase(facts.job.id);
  draft.Event("attempt.stopping", Subject(attempt.key), attempt.cause);
  draft.Put(attempt);
}

void StopForFailure(Draft& draft, const Facts& facts, const RankRecord& first) {
  const bool cut_off = EndedByLease(*first.exit);
  const bool lost = cut_off || std::holds_alternative<UnknownEnd>(first.exit->cause);
  BeginStop(draft, facts, lost ? StopCause::kNodeLost : StopCause::kRankFailed,
            fmt::format("rank {} on {}: {}{}", first.rank, first.node.value,
                        Describe(first.exit->cause), cut_off ? kLeaseWords : ""));
}

// ---- preparing ----

Ending PreflightEnding(const LaunchDecision& decision) {
  Ending ending;
  ending.outcome = "preflight";
  ending.sub_reason = decision.setup_failed ? "SETUP" : "PREFLIGHT";
  for (const Finding& finding : decision.findings) {
    if (finding.severity != Severity::kError) continue;
    ending.text = fmt::format("{}{}{}: {}", finding.code, finding.node ? " on " : "",
                              finding.node ? finding.node->value : "", finding.says);
    break;
  }
  ending.blame = Blame::kPlan;
  ending.findings = decision.findings;
  return ending;
}

// All that comes before a start was done and nothing refuses it.
Ending CheckedEnding(const LaunchDecision& decision) {
  Ending ending;
  ending.outcome = "checked";
  ending.state = JobState::kSucceeded;
  ending.text = "passed; its ranks were not to be started";
  ending.findings = decision.findings;
  return ending;
}

bool Refuses(const Facts& facts, const LaunchDecision& decision) {
  const bool fatal = decision.setup_failed || decision.attempt.master_address.empty();
  return fatal || (HasErrors(decision.findings) && !facts.job.forced);
}

// What the plan knew of these nodes stays with the job; what this start found of the same thing on
// the same node is newer.
std::vector<Finding> WithStaging(std::vector<Finding> known, const std::vector<Finding>& found) {
  std::erase_if(known, [&](const Finding& old) {
    return std::any_of(found.begin(), found.end(), [&](const Finding& now) {
      return now.code == old.code && now.node == old.node;
    });
  });
  known.insert(known.end(), found.begin(), found.end());
  return known;
}

// Why a node does not see the directory of which this is the inode; empty = it does.
std::string WhyUnseen(const StagingFacts& facts, std::uint64_t submitted) {
  for (const PathFact& fact : facts.paths) {
    if (fact.what != "workdir" && fact.what != "marker") continue;
    if (!fact.ok) return fact.path + ": " + fact.why;
    const bool other = submitted != 0 && fact.inode != 0 && fact.inode != submitted;
    if (fact.what == "workdir" && other) return fact.path + " is another directory there";
  }
  return {};
}

// A node does not see the working directory, and a copy of it came with the job: all nodes stage
// once more, from copies.
bool StageCopies(Draft& draft, const Facts& facts) {
  const SpecRecord& spec = draft.state().specs.at(facts.job.id);
  if (spec.context.snapshot.empty() || spec.spec.snapshot || facts.live.use_snapshot) return false;
  for (const auto& [node, found] : facts.live.ready) {
    const std::string why = WhyUnseen(found, spec.context.workdir_inode);
    if (why.empty()) continue;
    draft.Event("attempt.shipping", Subject(facts.attempt.key),
                fmt::format("runs from a copy of the working directory, which {} does not see: {}",
                            node.value, why));
    facts.live.use_snapshot = true;
    facts.live.ready.clear();
    facts.live.asked.clear();
    facts.live.staging_began = false;
    return true;
  }
  return false;
}

void Launch(Draft& draft, const Facts& facts) {
  LaunchDecision decision = DecideLaunch(draft.state(), facts.attempt);
  if (facts.live.testing_network) {
    PreflightReport network = JudgeNetworkRound(draft.state(), facts.attempt);
    for (const Check& check : network.checks) {
      if (check.node || check.check == "interface") continue;  // those of the attempt as a whole
      draft.Event("attempt.network_tested", Subject(facts.attempt.key), check.says);
    }
    std::move(network.findings.begin(), network.findings.end(),
              std::back_inserter(decision.findings));
  }
  decision.findings = WithStaging(facts.job.findings, decision.findings);
  if (Refuses(facts, decision)) {
    EndAttempt(draft, facts.attempt.key, PreflightEnding(decision));
    return;
  }
  if (draft.state().specs.at(facts.job.id).spec.check_only) {
    EndAttempt(draft, facts.attempt.key, CheckedEnding(decision));
    return;
  }
  JobRecord job = facts.job;
  job.findings = decision.findings;
  CountProgress(draft.state(), decision, job);
  if (const auto stuck = WhyStuck(draft.state(), facts.attempt, job)) {
    EndAttempt(draft, facts.attempt.key, *stuck);
    return;
  }
  AttemptRecord attempt = decision.attempt;
  attempt.phase = AttemptPhase::kLaunching;
  for (const std::string& skipped : decision.skipped_checkpoints) {
    draft.Event("checkpoint.skipped", Subject(attempt.key), skipped);
  }
  draft.Event(
      "attempt.launching", Subject(attempt.key),
      fmt::format("master {}:{}{}{}", attempt.master_address, attempt.master_port,
                  attempt.resumed_from.empty() ? "" : ", resumes from ", attempt.resumed_from));
  facts.live.deadline = draft.now() + kStartLimit;
  for (const AllocRecord& alloc : decision.allocs) draft.Put(alloc);
  draft.Put(attempt);
  draft.Put(job);
}

// A node may take this long for a copy of the working directory, at 2 MB/s.
Millis FetchTime(const Draft& draft, const Facts& facts) {
  const SpecRecord& spec = draft.state().specs.at(facts.job.id);
  if (!spec.spec.snapshot && !facts.live.use_snapshot) return Millis{0};
  return Millis{static_cast<std::int64_t>(spec.context.snapshot_bytes / 2'000)};
}

// `setup` is a program of the user that runs before any Go: it may have begun wherever the
// allocation was accepted in the node's present boot.
bool MayRunSetup(const State& state, const Facts& facts) {
  if (state.specs.at(facts.job.id).spec.setup.empty()) return false;
  return !AllOf(
      facts, [](const AllocRecord& alloc) { return IsReleased(alloc) || alloc.boot_id.empty(); });
}

// Where nothing of the user's can run yet, the attempt ends at once; else when all nodes have
// proved that nothing is left.
void GiveUpStart(Draft& draft, const Facts& facts, StopCause cause, const Ending& ending) {
  if (MayRunSetup(draft.state(), facts)) {
    BeginStop(draft, facts, cause, ending.text, ending.first_failed_node);
  } else {
    EndAttempt(draft, facts.attempt.key, ending);
  }
}

bool GiveUpIfAsked(Draft& draft, const Facts& facts) {
  if (!facts.job.cancelled_by.empty()) {
    GiveUpStart(draft, facts, StopCause::kCancelled, CancelledEnding(facts.job));
  } else if (!facts.job.requeued_by.empty()) {
    GiveUpStart(draft, facts, StopCause::kPreempted, RequeuedEnding(facts.job));
  } else if (facts.attempt.stop_cause == StopCause::kStartFailed) {
    GiveUpStart(draft, facts, StopCause::kStartFailed,
                StartFailed(facts.attempt.first_failed_node, facts.attempt.cause));
  } else if (!facts.live.lost.empty()) {
    const auto& [node, why] = *facts.live.lost.begin();
    GiveUpStart(draft, facts, StopCause::kStartFailed, StartFailed(node, node.value + " " + why));
  } else {
    return false;
  }
  return true;
}

void SettlePreparing(Draft& draft, const Facts& facts) {
  const State& state = draft.state();
  if (GiveUpIfAsked(draft, facts)) return;
  const auto accepted = [](const AllocRecord& alloc) {
    return alloc.phase == StoredAllocPhase::kAccepted;
  };
  const auto ready = [&](const AllocRecord& alloc) {
    return facts.live.ready.contains(alloc.node);
  };
  const bool all_accepted = AllOf(facts, accepted);
  const auto tested = [&](const AllocRecord& alloc) {
    return facts.live.network.contains(alloc.node);
  };
  if (all_accepted && AllOf(facts, ready)) {
    if (StageCopies(draft, facts)) return;
    const bool ask = TestsNetwork(state, facts.attempt) && !AllOf(facts, tested) &&
                     !Refuses(facts, DecideLaunch(state, facts.attempt));
    if (!ask) {
      Launch(draft, facts);
      return;
    }
    if (!facts.live.testing_network) {
      facts.live.testing_network = true;
      facts.live.deadline = draft.now() + kNetworkTestLimit;
    }
  }
  if (!facts.live.deadline) facts.live.deadline = draft.now() + kAcceptLimit;
  if (all_accepted && !facts.live.staging_began) {
    Millis setup{0};
    if (const auto plan = state.plans.find(facts.attempt.key);
        plan != state.plans.end() && !plan->second->allocations.empty()) {
      const AllocationSpec& spec = plan->second->allocations.front().spec;
      if (!spec.setup.empty()) setup = spec.setup_timeout;
    }
    facts.live.staging_began = true;
    // The first node stages alone, then the others: twice the time of one.
    facts.live.deadline = draft.now() + 2 * setup + 2 * kStagingMargin + FetchTime(draft, facts);
  }
  if (*facts.live.deadline > draft.now()) return;
  const std::vector<NodeId> late = NodesWhere(facts, [&](const AllocRecord& alloc) {
    if (facts.live.testing_network) return !tested(alloc);
    return all_accepted ? !ready(alloc) : !accepted(alloc);
  });
  const std::string text = all_accepted
                               ? "staging did not end in time on " + Names(late)
                               : fmt::format("{} did not accept the allocation within {} s",
                                             Names(late), kAcceptLimit.count() / 1000);
  GiveUpStart(draft, facts, StopCause::kStartFailed, StartFailed(OnlyOne(late), text));
}

// ---- launching, running, stopping ----

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
  if (facts.job.requeued_by.empty()) return false;
  BeginStop(draft, facts, StopCause::kPreempted, "requeued by " + facts.job.requeued_by);
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
    if (const std::optional<Millis> limit = state.specs.at(job.id).spec.time_limit) {
      draft.live().time_limits[job.id] = draft.now() + *limit;
    }
    draft.Event("attempt.running", Subject(attempt.key), "");
    draft.Put(attempt);
    draft.Put(job);
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
    Ending ending;
    ending.outcome = "success";
    ending.state = JobState::kSucceeded;
    ending.exit_code = 0;
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
    BeginStop(draft, facts, StopCause::kTimeLimit, "the time limit of the job was reached");
  }
}

void SettleStopping(Draft& draft, const Facts& facts) {
  if (!AllOf(facts, [](const AllocRecord& alloc) { return IsReleased(alloc); })) return;
  const Ending ending = JudgeAttempt(draft.state(), facts.attempt);
  if (!IsDiagnosed(draft, facts.attempt, ending)) return;
  EndAttempt(draft, facts.attempt.key, ending);
}

}  // namespace

void SettleJob(Draft& draft, JobId id) {
  const State& state = draft.state();
  const auto found = state.jobs.find(id);
  if (found == state.jobs.end()) return;
  const JobRecord job = found->second;  // copies of what the transition replaces
  if (job.phase == JobPhase::kQueued && !job.cancelled_by.empty()) {
    EndJob(draft, job, CancelledEnding(job));
    return;
  }
  if (job.phase != JobPhase::kActive) return;
  const Key key{id, Attempt{job.attempts}};
  const AttemptRecord attempt = state.attempts.at(key);
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
