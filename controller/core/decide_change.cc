// Hold, release, requeue and update: what users change of their jobs later.
#include <fmt/format.h>

#include "common/plural.h"
#include "common/snapshot.h"
#include "common/units.h"
#include "controller/core/draft.h"
#include "controller/core/kept_place.h"
#include "controller/core/offers.h"
#include "controller/core/ownership.h"
#include "controller/core/unknown_attempts.h"
#include "controller/core/views.h"
#include "planner/planner.h"

namespace launch::controller {
namespace {

Error Refusal(ErrorCode code, std::string message, std::string hint) {
  return Error{code, std::move(message), std::move(hint), std::nullopt};
}

Error NotWaiting(const State& state, const JobRecord& job, std::string hint) {
  return Refusal(ErrorCode::kFailedPrecondition,
                 fmt::format("job {} is {}", job.id.value, ToString(ShownState(state, job))),
                 std::move(hint));
}

// A store that was put back does not know who was given the job since: one of them may run it.
std::optional<Error> WhyNotReleased(const State& state, const JobRecord& job) {
  const NodeId* node = NodeToReport(state);
  if (node == nullptr) return std::nullopt;
  return Refusal(
      ErrorCode::kFailedPrecondition,
      fmt::format("{} may run job {}: it has said nothing since the store was put back",
                  node->value, job.id.value),
      fmt::format("bring its agent back; if it has no power, `launch node fence {}`", node->value));
}

// A plan that is being made for it is thrown away when it comes.
void DropHold(Draft& draft, JobId job) {
  draft.live().holds.erase(job);
  draft.TouchQueue();
}

Result<std::string> HoldJob(Draft& draft, JobRecord job, const std::string& by) {
  if (job.phase != JobPhase::kQueued) {
    return Unexpected(NotWaiting(draft.state(), job,
                                 job.phase == JobPhase::kDone
                                     ? "only a job that waits can be held"
                                     : "launch requeue --hold stops it and holds it"));
  }
  if (job.held) return std::string("was held already");
  job.held = true;
  job.held_by = by;
  LeavePlace(draft, job, "held by " + by);
  draft.Event("job.held", Subject(job.id), "by " + by);
  draft.Put(job);
  DropHold(draft, job.id);
  return std::string("held");
}

Result<std::string> ReleaseJob(Draft& draft, JobRecord job, const std::string& by) {
  if (job.phase == JobPhase::kDone) {
    return Unexpected(NotWaiting(draft.state(), job, "launch requeue runs it again"));
  }
  if (!job.held) return std::string("was not held");
  if (job.held_by == kByRestore) {
    if (auto unsaid = WhyNotReleased(draft.state(), job)) return Unexpected(std::move(*unsaid));
  }
  job.held = false;
  job.held_by.clear();
  draft.Event("job.released", Subject(job.id), "by " + by);
  draft.Put(job);
  draft.TouchQueue();
  return std::string("released");
}

// A job that is done goes back to the queue as it was submitted; its attempts go on counting.
Result<std::string> RunAgain(Draft& draft, JobRecord job, const JobChange& change,
                             const std::string& by) {
  if (!draft.state().specs.at(job.id).spec.secrets.empty()) {
    return Unexpected(
        Refusal(ErrorCode::kFailedPrecondition,
                fmt::format("the secrets of job {} were deleted when it ended", job.id.value),
                "submit it again, which sends them again"));
  }
  const bool from_copy = draft.state().specs.at(job.id).spec.snapshot;
  if (from_copy && draft.wall() - job.ended >= kCopyKept) {
    return Unexpected(
        Refusal(ErrorCode::kFailedPrecondition,
                fmt::format("the copy of the working directory of job {} was kept for a day after "
                            "its end",
                            job.id.value),
                "submit it again, which sends a copy again"));
  }
  if (auto full = WhyFull(draft.state(), job.owner, 1)) return Unexpected(std::move(*full));
  job.phase = JobPhase::kQueued;
  job.change = {};
  job.change_text.clear();
  job.excluded_nodes.clear();
  job.not_before = WallTime{};
  job.outcome.reset();
  job.sub_reason.clear();
  job.outcome_text.clear();
  job.exit_code.reset();
  job.cancelled_by.clear();
  job.cancelled_at = WallTime{};
  job.retries.clear();
  job.no_progress = 0;
  job.started = WallTime{};
  job.ended = WallTime{};
  job.requeue_cause = "requeued by " + by;
  job.held = change.hold;
  job.held_by = change.hold ? by : "";
  draft.Event("job.requeued", Subject(job.id), job.requeue_cause);
  draft.Put(job);
  draft.TouchQueue();
  return std::string("queued again");
}

Result<std::string> RequeueJob(Draft& draft, JobRecord job, const JobChange& change,
                               const std::string& by) {
  if (job.phase == JobPhase::kDone) return RunAgain(draft, std::move(job), change, by);
  if (job.phase == JobPhase::kQueued) {
    return Unexpected(NotWaiting(draft.state(), job, "it waits already"));
  }
  if (!job.cancelled_by.empty()) {
    return Unexpected(NotWaiting(draft.state(), job, "it is being cancelled"));
  }
  EndUnseen(draft, job.id);
  job.requeued_by = by;
  if (job.held_by != kByRestore) {
    job.held = change.hold;
    job.held_by = change.hold ? by : "";
  }
  draft.Put(job);  // its attempt is stopped by decide_attempt.cc
  return fmt::format("attempt {} is being stopped; then it is {}", job.attempts,
                     job.held_by == kByRestore ? "held until `launch release`" : "queued again");
}

// The spec with another number of nodes must still be sound and fit some node that we know. What
// its line asks for then.
Result<Result<LineDemand>> CheckFits(Draft& draft, const JobRecord& job,
                                     const SpecRecord& changed) {
  if (const auto* same = draft.state().lines.OfElementBefore(draft.state(), changed)) return *same;
  if (!IsReadAtOnce(changed.spec, changed.context.files) && !draft.readings().Take()) {
    return Fail(ErrorCode::kResourceExhausted,
                "its script is read anew for another number of nodes, and enough were read",
                "change the nodes of fewer jobs at once");
  }
  const Result<LaunchLine> line = ReadLineOf(changed.spec, changed.context.files);
  LAUNCH_RETURN_IF_ERROR(CheckSpec(changed.spec, changed.context, line));
  Result<LineDemand> demand = DemandIn(line);
  const std::vector<effect::NodeOffer> offers = MakeOffers(draft.state());
  if (offers.empty()) return demand;
  const auto placed = Place(changed.spec, WhenEmpty(ForPlanner(offers, job.owner)), demand);
  if (placed || !placed.error().never) return demand;
  return Fail(ErrorCode::kCannotFit,
              "no known node could ever run it then: " + placed.error().reason.evidence, "");
}

// The ranks have their signal: what was said of the end can no longer be taken back.
bool IsEndedByLimit(const State& state, const JobRecord& job) {
  const auto attempt = state.attempts.find(Key{job.id, Attempt{job.attempts}});
  return attempt != state.attempts.end() && attempt->second.phase == AttemptPhase::kStopping &&
         attempt->second.stop_cause == StopCause::kTimeLimit;
}

Result<std::string> UpdateJob(Draft& draft, const JobRecord& job, const JobChange& change,
                              const std::string& by) {
  if (job.phase == JobPhase::kDone) {
    return Unexpected(NotWaiting(draft.state(), job, "it is over"));
  }
  const bool waits = job.phase == JobPhase::kQueued;
  if (!waits && (change.nodes || change.begin)) {
    return Unexpected(
        NotWaiting(draft.state(), job, "nodes and begin can be changed while a job waits only"));
  }
  if (change.time_limit && IsEndedByLimit(draft.state(), job)) {
    return Unexpected(NotWaiting(draft.state(), job, "it is being stopped for its time limit"));
  }
  SpecRecord record = draft.state().specs.at(job.id);
  JobSpec& spec = record.spec;
  if (change.time_limit) {
    spec.time_limit = change.time_limit;
    LAUNCH_RETURN_IF_ERROR(CheckSignalLead(spec));
  }
  // Nothing but the number of nodes changes what the line asks for.
  std::optional<Result<LineDemand>> line;
  if (const auto* known = draft.state().lines.Find(draft.state(), job.id)) line = *known;
  std::string says;
  const auto note = [&](std::string text) { says += (says.empty() ? "" : ", ") + text; };
  if (change.priority) {
    spec.priority = *change.priority;
    note(fmt::format("priority {}", spec.priority));
  }
  if (change.begin) {
    spec.begin = change.begin;
    note("a new begin");
  }
  if (change.nodes) {
    spec.nodes = *change.nodes;
    LAUNCH_ASSIGN_OR_RETURN(line, CheckFits(draft, job, record));
    note(WithPlural(spec.nodes.min, "node"));
  }
  if (change.time_limit) {
    note("time limit " + FormatDuration(*change.time_limit));
  }
  if (says.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "nothing to change was given",
                "launch update JOB priority=70 time=12h begin=22:00 nodes=2");
  }
  draft.Event("job.updated", Subject(job.id), fmt::format("{} by {}", says, by));
  draft.Put(record);
  if (line) draft.KeepLine(job.id, std::move(*line));
  if (job.keeps != 0 && (change.nodes || change.begin)) {
    JobRecord moved = job;
    LeavePlace(draft, moved, says);
    draft.Put(std::move(moved));
  }
  if (change.begin) {
    // The old begin is no reason to wait any more, a retry's backoff still is.
    draft.live().not_before.erase(job.id);
    const Millis left = BackoffLeft(job, draft.wall());
    if (left > Millis{0}) draft.live().not_before[job.id] = draft.now() + left;
  }
  if (waits) {
    DropHold(draft, job.id);
  } else if (change.time_limit) {
    ArmTimeLimit(draft.live(), draft.state(), job.id, draft.clock());
  }
  return says;
}

JobAct ActOf(JobAction action) {
  switch (action) {
    case JobAction::kHold:
      return JobAct::kHold;
    case JobAction::kRelease:
      return JobAct::kRelease;
    case JobAction::kRequeue:
      return JobAct::kRequeue;
    case JobAction::kUpdate:
      break;
  }
  return JobAct::kUpdate;
}

}  // namespace

void OnUser(Draft& draft, const event::Change& event) {
  reply::Changed answer;
  const std::string& by = event.caller.user.value;
  for (const JobId id : event.jobs) {
    reply::ChangeResult result;
    result.job = id;
    const auto found = draft.state().jobs.find(id);
    if (found == draft.state().jobs.end()) {
      result.error = Refusal(ErrorCode::kNotFound, fmt::format("there is no job {}", id.value),
                             "`launch queue -a` lists all jobs");
    } else if (const JobAct act = ActOf(event.change.action);
               !MayDo(act, event.caller, found->second.owner)) {
      result.error = Refusal(ErrorCode::kPermissionDenied,
                             fmt::format("user {} may not {} job {}", by, NameOf(act), id.value),
                             "only its owner or an operator may");
    } else {
      const JobRecord job = found->second;
      Result<std::string> says = [&]() -> Result<std::string> {
        switch (event.change.action) {
          case JobAction::kHold:
            return HoldJob(draft, job, by);
          case JobAction::kRelease:
            return ReleaseJob(draft, job, by);
          case JobAction::kRequeue:
            return RequeueJob(draft, job, event.change, by);
          case JobAction::kUpdate:
            return UpdateJob(draft, job, event.change, by);
        }
        return std::string();
      }();
      if (says) {
        result.says = std::move(*says);
      } else {
        result.error = says.error();
      }
    }
    answer.results.push_back(std::move(result));
  }
  draft.Reply(event.request, ReplyBody(std::move(answer)));
}

}  // namespace launch::controller
