// What each node is asked to do, derived from the stored phases; sent once per session.
//
// | attempt    | allocation                    | the node is asked to                    |
// | preparing  | assigned                      | Prepare                                 |
// | preparing  | all accepted, this not ready  | Stage; rank 0's node first              |
// | preparing  | all ready, full preflight     | Stage with a test of the network        |
// | launching  | accepted                      | Go (after a reconnect: Prepare, Go)     |
// | stopping, ended | not released             | Stop, again each 30 s beyond its grace  |
// | any        | unseen by an agent installed  | nothing, until somebody cancels or      |
// |            | anew                          | requeues the job, or its lease is over  |
#include <algorithm>
#include <optional>

#include "controller/core/draft.h"

namespace launch::controller {
namespace {

bool AllAccepted(const std::map<NodeId, AllocRecord>& allocs) {
  return std::all_of(allocs.begin(), allocs.end(), [](const auto& entry) {
    return entry.second.phase == StoredAllocPhase::kAccepted;
  });
}

std::optional<Demand> Wanted(const State& state, const AttemptRecord& attempt,
                             const AllocRecord& alloc, bool all_accepted) {
  // A Go would start its ranks a second time, and the end of nothing would count as theirs.
  if (WaitsForAPerson(state, attempt.key, alloc.node)) return std::nullopt;
  switch (attempt.phase) {
    case AttemptPhase::kPreparing: {
      if (alloc.phase == StoredAllocPhase::kAssigned) return Demand::kPrepare;
      const auto live = state.live.attempts.find(attempt.key);
      if (live == state.live.attempts.end()) return std::nullopt;
      if (live->second.testing_network) {
        if (live->second.network.contains(alloc.node)) return std::nullopt;
        return Demand::kTestNetwork;
      }
      if (live->second.ready.contains(alloc.node)) return std::nullopt;
      if (!all_accepted) return std::nullopt;
      const NodeId& first = attempt.nodes.front();
      // The others look for the marker of the first; copies have none.
      const bool copies =
          live->second.use_snapshot || state.specs.at(attempt.key.job).spec.snapshot;
      const bool marker = !copies && live->second.known.empty();
      if (alloc.node != first && marker && !live->second.ready.contains(first)) {
        return std::nullopt;
      }
      return Demand::kStage;
    }
    case AttemptPhase::kLaunching:
      if (alloc.phase == StoredAllocPhase::kStarted || alloc.phase == StoredAllocPhase::kExited) {
        return std::nullopt;
      }
      return Demand::kGo;
    case AttemptPhase::kRunning:
      return std::nullopt;
    case AttemptPhase::kStopping:
    case AttemptPhase::kEnded:
      return Demand::kStop;
  }
  return std::nullopt;
}

to_node::Prepare MakePrepare(const State& state, const AllocRecord& alloc) {
  to_node::Prepare prepare;
  // Attempts whose plan is lost are stopped before they are asked for anything.
  for (const PlannedAllocation& planned : state.plans.at(alloc.key)->allocations) {
    if (planned.spec.node != alloc.node) continue;
    prepare.spec = planned.spec;
    prepare.spec_bytes = planned.bytes;
    prepare.digest = planned.digest;
    break;
  }
  for (auto secret = state.secrets.lower_bound({alloc.key.job, ""});
       secret != state.secrets.end() && secret->first.first == alloc.key.job; ++secret) {
    prepare.secrets.emplace_back(secret->second.name, secret->second.sealed);
  }
  return prepare;
}

to_node::Stage MakeStage(const State& state, const AttemptRecord& attempt,
                         const AllocRecord& alloc) {
  to_node::Stage stage;
  stage.key = attempt.key;
  stage.digest = alloc.digest;
  const JobSpec& spec = state.specs.at(attempt.key.job).spec;
  const auto live = state.live.attempts.find(attempt.key);
  stage.use_snapshot =
      spec.snapshot || (live != state.live.attempts.end() && live->second.use_snapshot);
  stage.again = live != state.live.attempts.end() && !live->second.known.empty();
  if (attempt.nodes.size() > 1 && !stage.again) {
    if (!stage.use_snapshot) {  // copies are nowhere the same directory
      stage.write_marker = alloc.node == attempt.nodes.front();
      stage.marker = ".launch-marker-" + ToString(attempt.key);
    }
    stage.masters = MasterCandidates(state, attempt);
    const AllocRecord& first = state.allocs.at(attempt.key).at(attempt.nodes.front());
    stage.master_port = first.ports ? first.ports->first : 0;
  }
  stage.find_checkpoint = spec.checkpoint.resume && !spec.checkpoint.dir.empty();
  return stage;
}

// A limit may leave its signal minutes before the end; who cancels does not wait for them.
StopCause StopCauseFor(const State& state, const AttemptRecord& attempt) {
  const bool cancelled = !state.jobs.at(attempt.key.job).cancelled_by.empty();
  return cancelled && attempt.stop_cause == StopCause::kTimeLimit ? StopCause::kCancelled
                                                                  : attempt.stop_cause;
}

void Ask(Draft& draft, const AttemptRecord& attempt, const AllocRecord& alloc, Demand what,
         bool first_in_session) {
  const State& state = draft.state();
  switch (what) {
    case Demand::kPrepare:
      draft.Send(alloc.node, MakePrepare(state, alloc));
      break;
    case Demand::kStage:
      draft.Send(alloc.node, MakeStage(state, attempt, alloc));
      break;
    case Demand::kTestNetwork:
      draft.Send(alloc.node, MakeNetworkStage(state, attempt, alloc));
      break;
    case Demand::kGo:
      // An agent that was restarted in between has lost the secrets of what it accepted.
      if (first_in_session) draft.Send(alloc.node, MakePrepare(state, alloc));
      draft.Send(alloc.node, MakeGo(state, attempt, alloc));
      break;
    case Demand::kStop:
      draft.Send(alloc.node, to_node::Stop{attempt.key, StopCauseFor(state, attempt),
                                           state.specs.at(attempt.key.job).spec.stop_duration});
      break;
  }
}

}  // namespace

void AskNodes(Draft& draft, JobId job) {
  const State& state = draft.state();
  for (auto entry = state.allocs.lower_bound(Key{job, Attempt{0}});
       entry != state.allocs.end() && entry->first.job == job; ++entry) {
    const AttemptRecord& attempt = state.attempts.at(entry->first);
    bool all_released = true;
    const bool all_accepted = AllAccepted(entry->second);
    for (const auto& [node, alloc] : entry->second) {
      if (IsReleased(alloc)) continue;
      all_released = false;
      const auto live = state.live.nodes.find(node);
      if (live == state.live.nodes.end() || !live->second.session) continue;
      const std::optional<Demand> wanted = Wanted(state, attempt, alloc, all_accepted);
      if (!wanted) continue;
      auto& asked = draft.live().attempts[entry->first].asked;
      const auto before = asked.find(node);
      const bool in_session =
          before != asked.end() && before->second.session == *live->second.session;
      if (in_session && before->second.what == *wanted) {
        const Millis patience = state.specs.at(job).spec.stop_duration + kAskAgain;
        const bool again = *wanted == Demand::kStop && before->second.at + patience <= draft.now();
        if (!again) continue;
      }
      Ask(draft, attempt, alloc, *wanted, !in_session);
      asked[node] = Asked{*wanted, *live->second.session, draft.now()};
    }
    if (all_released && attempt.phase == AttemptPhase::kEnded) {
      draft.EndLive(entry->first);
    }
  }
}

}  // namespace launch::controller
