// A command beside a rank: may it run now, and who must be told.
#include <fmt/format.h>

#include <algorithm>

#include "controller/core/draft.h"
#include "controller/core/ownership.h"

namespace launch::controller {
namespace {

struct Place {
  Key key;
  NodeId node;
};

std::string RunningRanks(const State& state, const Key& key) {
  std::size_t ranks = 0;
  for (const auto& [node, alloc] : state.allocs.at(key)) ranks += alloc.ranks.size();
  return fmt::format("job {} has ranks 0 to {}", key.job.value, ranks - 1);
}

// The node of a rank that runs and answers.
Result<Place> FindRank(const State& state, JobId id, Rank rank) {
  const JobRecord& job = state.jobs.at(id);
  const Key key{id, Attempt{job.attempts}};
  const auto attempt = state.attempts.find(key);
  if (job.phase != JobPhase::kActive || attempt == state.attempts.end() ||
      attempt->second.phase != AttemptPhase::kRunning) {
    return Fail(ErrorCode::kFailedPrecondition, fmt::format("job {} is not running", id.value),
                fmt::format("`launch status {}` says what it does", id.value));
  }
  for (const auto& [node, alloc] : state.allocs.at(key)) {
    if (std::ranges::find(alloc.ranks, rank) == alloc.ranks.end()) continue;
    if (RankOf(state, alloc, rank).exit) {
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("rank {} of job {} has ended", rank, id.value),
                  "another rank may still run: --rank N");
    }
    const auto live = state.live.nodes.find(node);
    if (live == state.live.nodes.end() || !live->second.session || live->second.silent) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("node {} of rank {} does not answer", node.value, rank),
                  "the job runs on; try again when the node is back");
    }
    return Place{key, node};
  }
  return Fail(ErrorCode::kInvalidArgument, RunningRanks(state, key), "--rank 0");
}

}  // namespace

// Nothing of it is stored but the event: a session ends with its connections, and the processes
// with the attempt whose control group they are in.
void OnUser(Draft& draft, const event::OpenExec& event) {
  const auto job = draft.state().jobs.find(event.job);
  const bool may =
      job != draft.state().jobs.end() && MayDo(JobAct::kExec, event.caller, job->second.owner);
  if (!may) {
    draft.Reply(event.request,
                Fail(ErrorCode::kNotFound, fmt::format("there is no job {}", event.job.value),
                     "`launch queue -a` lists all jobs"));
    return;
  }
  const Result<Place> place = FindRank(draft.state(), event.job, event.rank);
  if (!place) {
    draft.Reply(event.request, Unexpected(place.error()));
    return;
  }
  draft.Event("exec.opened", Subject(place->key),
              fmt::format("by {}, beside rank {} on {}: {}", event.caller.user.value, event.rank,
                          place->node.value, event.what));
  draft.Reply(event.request, ReplyBody(reply::ExecOpened{place->key, place->node}));
  draft.Send(place->node, to_node::OpenExec{place->key, event.rank, event.exec});
}

}  // namespace launch::controller
