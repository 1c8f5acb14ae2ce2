// Before its first rank: accepted, staged and tested on all nodes, then launched or given up.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/planted.h"
#include "controller/core/attempt_facts.h"
#include "controller/core/fold_findings.h"
#include "preflight/checked_text.h"

namespace launch::controller {
namespace {

Ending RequeuedEnding(const JobRecord& job) {
  Ending ending;
  ending.outcome = "preempted";
  ending.state = JobState::kPreempted;
  ending.text = WhyRequeued(job);
  return ending;
}

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

bool IsUnreachable(const Finding& finding) {
  return finding.severity == Severity::kError && finding.code == "network_unreachable";
}

// Nodes that do not reach each other are no fault of the job: another try, and other nodes, may do.
bool IsOfNetwork(const Facts& facts, const LaunchDecision& decision) {
  if (decision.setup_failed || !std::ranges::any_of(decision.findings, IsUnreachable)) return false;
  return std::ranges::all_of(decision.findings, [&](const Finding& finding) {
    return IsUnreachable(finding) || finding.severity != Severity::kError || facts.job.forced;
  });
}

// Whose fault it is. When no node reaches the first, the first; of two nobody knows: the second,
// and where the first does not get on with another one either, the first.
NodeId UnreachableNode(const Facts& facts, const LaunchDecision& decision, JobRecord& job) {
  const std::vector<NodeId>& nodes = facts.attempt.nodes;
  std::vector<NodeId> cut_off;
  for (const Finding& finding : decision.findings) {
    if (IsUnreachable(finding) && finding.node) cut_off.push_back(*finding.node);
  }
  const auto earlier = [](const auto& entry) { return WasUnreachable(entry.second); };
  const bool again = std::ranges::any_of(job.excluded_nodes, earlier);
  if (cut_off.size() == 1 && !(nodes.size() == 2 && again)) return cut_off.front();
  if (nodes.size() == 2) std::erase_if(job.excluded_nodes, earlier);
  return nodes.front();
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
// the same node is newer, and so is what is no node's own, as the sum of many nodes.
std::vector<Finding> WithStaging(std::vector<Finding> known, const std::vector<Finding>& found) {
  std::erase_if(known, [&](const Finding& old) {
    return std::any_of(found.begin(), found.end(), [&](const Finding& now) {
      return now.code == old.code && (now.node == old.node || !old.node);
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
    facts.live.known.clear();  // found in another directory
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
    NoteNetwork(draft, Subject(facts.attempt.key), facts.attempt.nodes,
                FactsByPlace(facts.live, facts.attempt.nodes));
    std::move(network.findings.begin(), network.findings.end(),
              std::back_inserter(decision.findings));
    std::move(network.checks.begin(), network.checks.end(), std::back_inserter(decision.checks));
  }
  if (!decision.checks.empty()) {
    draft.Event("attempt.checked", Subject(facts.attempt.key), CheckedText(decision.checks));
  }
  decision.findings = WithStaging(facts.job.findings, decision.findings);
  if (Refuses(facts, decision)) {
    Ending ending = PreflightEnding(decision);
    const bool checks = draft.state().specs.at(facts.job.id).spec.check_only;
    if (!checks && IsOfNetwork(facts, decision)) {
      JobRecord job = facts.job;
      ending.blame = Blame::kInfrastructure;
      ending.first_failed_node = UnreachableNode(facts, decision, job);
      draft.Put(std::move(job));
    }
    EndAttempt(draft, facts.attempt.key, ending);
    return;
  }
  if (draft.state().specs.at(facts.job.id).spec.check_only) {
    EndAttempt(draft, facts.attempt.key, CheckedEnding(decision));
    return;
  }
  JobRecord job = facts.job;
  job.findings = FoldFindings(decision.findings);
  CountProgress(draft.state(), decision, job);
  if (const auto stuck = WhyStuck(draft.state(), facts.attempt, job)) {
    EndAttempt(draft, facts.attempt.key, *stuck);
    return;
  }
  AttemptRecord attempt = decision.attempt;
  attempt.phase = AttemptPhase::kLaunching;
  attempt.in_copy = facts.live.use_snapshot || draft.state().specs.at(facts.job.id).spec.snapshot;
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

// The store went back to when it was prepared: what it began since, only its nodes know, and those
// that are refused for it say so.
bool MayHaveBegunSince(const State& state, const Facts& facts) {
  if (Planted(Bug::kRestoreBeside)) return false;
  return facts.job.went_back || state.live.unknown.contains(facts.attempt.key);
}

// Where nothing of the user's can run yet, the attempt ends at once; else when all nodes have
// proved that nothing is left.
void GiveUpStart(Draft& draft, const Facts& facts, StopCause cause, const Ending& ending) {
  if (MayRunSetup(draft.state(), facts) || MayHaveBegunSince(draft.state(), facts)) {
    BeginStop(draft, facts, cause, ending.text, ending.first_failed_node);
  } else {
    EndAttempt(draft, facts.attempt.key, ending);
  }
}

bool GiveUpIfAsked(Draft& draft, const Facts& facts) {
  if (!facts.job.cancelled_by.empty()) {
    GiveUpStart(draft, facts, StopCause::kCancelled, CancelledEnding(facts.job));
  } else if (IsRequeued(facts.job)) {
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

// "; gpu1: setup: pip install x", the newest that one of these nodes said it waits for.
std::string LastStaging(const LiveAttempt& live, const std::vector<NodeId>& nodes) {
  for (const NodeId& node : nodes) {
    const auto staging = live.staging.find(node);
    if (staging == live.staging.end()) continue;
    const auto& [key, step, line] = staging->second;
    return fmt::format("; {}: {}{}{}", node.value, step, line.empty() ? "" : ": ", line);
  }
  return {};
}

}  // namespace

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
    const bool ask = facts.live.known.empty() && TestsNetwork(state, facts.attempt) &&
                     !AllOf(facts, tested) && !Refuses(facts, DecideLaunch(state, facts.attempt));
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
  const std::string text =
      all_accepted ? "staging did not end in time on " + Names(late) + LastStaging(facts.live, late)
                   : fmt::format("{} did not accept the allocation within {} s", Names(late),
                                 kAcceptLimit.count() / 1000);
  GiveUpStart(draft, facts, StopCause::kStartFailed, StartFailed(OnlyOne(late), text));
}

}  // namespace launch::controller
