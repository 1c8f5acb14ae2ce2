// A command beside a rank, or files that one left: may it be now, and who must be told.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "controller/core/draft.h"
#include "controller/core/ownership.h"

namespace launch::controller {
namespace {

struct Place {
  Key key;
  NodeId node;
  std::optional<JobCopy> copy = {};  // of what does not run any more
};

Unexpected NoSuchRank(const State& state, const Key& key) {
  std::size_t ranks = 0;
  for (const auto& [node, alloc] : state.allocs.at(key)) ranks += alloc.ranks.size();
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("job {} has ranks 0 to {}", key.job.value, ranks - 1),
              "--rank 0; processes that a launcher inside run starts are beside the rank of the "
              "text on their node, which `launch env JOB --rank N` names");
}

// Of a job that ended: what its newest attempt left where the rank ran.
Result<Place> FindCopy(const State& state, JobId id, Rank rank) {
  const SpecRecord& spec = state.specs.at(id);
  auto attempt = state.attempts.end();
  for (std::uint32_t n = state.jobs.at(id).attempts; n > 0 && attempt == state.attempts.end();
       --n) {
    const auto found = state.attempts.find(Key{id, Attempt{n}});
    if (found != state.attempts.end() && ToMs(found->second.started) != 0) attempt = found;
  }
  if (attempt == state.attempts.end()) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("job {} has not run, so it left nothing", id.value),
                fmt::format("`launch status {}` says what it does", id.value));
  }
  const auto& [key, record] = *attempt;
  const auto& allocs = state.allocs.at(key);
  const auto alloc = std::ranges::find_if(allocs, [&](const auto& entry) {
    return std::ranges::find(entry.second.ranks, rank) != entry.second.ranks.end();
  });
  if (alloc == allocs.end()) return NoSuchRank(state, key);
  const NodeId& node = alloc->first;
  if (spec.context.snapshot.empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("job {} ran in place: what it wrote is in {} on {}", id.value,
                            spec.spec.workdir, node.value),
                "copy it from there; `launch cp` reads what ended jobs left in copies of workdir");
  }
  const auto live = state.live.nodes.find(node);
  if (!state.nodes.contains(node)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("node {}, where rank {} of job {} ran, left the cluster", node.value,
                            rank, id.value),
                "another rank may have run elsewhere: --rank N");
  }
  if (live == state.live.nodes.end() || !live->second.session || live->second.silent) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("node {}, where rank {} of job {} ran, does not answer", node.value,
                            rank, id.value),
                "try again when the node is back");
  }
  return Place{key, node,
               JobCopy{.user = state.jobs.at(id).owner.value,
                       .root = spec.context.snapshot,
                       .workdir = spec.spec.workdir,
                       .used = record.in_copy}};
}

bool RunsNow(const State& state, const Key& key, Rank rank) {
  const auto attempt = state.attempts.find(key);
  if (attempt == state.attempts.end() || attempt->second.phase != AttemptPhase::kRunning)
    return false;
  const auto& allocs = state.allocs.at(key);
  return std::ranges::any_of(allocs, [&](const auto& entry) {
    const AllocRecord& alloc = entry.second;
    const bool has = std::ranges::find(alloc.ranks, rank) != alloc.ranks.end();
    return has && !RankOf(state, alloc, rank).exit;
  });
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
  return NoSuchRank(state, key);
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
  const State& state = draft.state();
  const Key newest{event.job, Attempt{job->second.attempts}};
  const bool reads_copy = event.archive && !RunsNow(state, newest, event.rank);
  const Result<Place> place =
      reads_copy ? FindCopy(state, event.job, event.rank) : FindRank(state, event.job, event.rank);
  if (!place) {
    draft.Reply(event.request, Unexpected(place.error()));
    return;
  }
  draft.Event("exec.opened", Subject(place->key),
              fmt::format("by {}, {} rank {} on {}: {}", event.caller.user.value,
                          place->copy ? "files that were left by" : "beside", event.rank,
                          place->node.value, place->copy ? *event.archive : event.what));
  draft.Reply(event.request, ReplyBody(reply::ExecOpened{place->key, place->node}));
  draft.Send(place->node, to_node::OpenExec{place->key, event.rank, event.exec, place->copy});
}

}  // namespace launch::controller
