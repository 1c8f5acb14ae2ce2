// What users ask for: submit, plan, cancel, look. Consequences are drawn elsewhere.
#include <fmt/format.h>

#include "common/planted.h"
#include "common/units.h"
#include "controller/core/dependencies.h"
#include "controller/core/draft.h"
#include "controller/core/expected_start.h"
#include "controller/core/measured_runs.h"
#include "controller/core/offers.h"
#include "controller/core/ownership.h"
#include "controller/core/unknown_attempts.h"
#include "controller/core/views.h"
#include "planner/planner.h"
#include "planner/start/array_check.h"

namespace launch::controller {
namespace {

Unexpected NoSuchJob(JobId job) {
  return Fail(ErrorCode::kNotFound, fmt::format("there is no job {}", job.value),
              "`launch queue -a` lists all jobs");
}

// The cheap half of planning, so that hopeless requests cost no worker: is the spec sound, and is
// there any node, in whatever state, that could ever run it? Of what is not read at once the worker
// says so, in the same order.
std::optional<Error> Hopeless(const effect::PlanWanted& wanted) {
  if (IsReadAtOnce(wanted.spec, wanted.context.files)) {
    const Result<LaunchLine> line = ReadLineOf(wanted.spec, wanted.context.files);
    if (const Result<void> sound = CheckSpec(wanted.spec, wanted.context, line); !sound) {
      return sound.error();
    }
    if (!wanted.offers.empty()) {
      const auto placement =
          Place(wanted.spec, WhenEmpty(ForPlanner(wanted.offers, wanted.owner)), DemandIn(line));
      if (!placement && placement.error().never) return NeverFits(placement.error());
    }
  }
  if (const Result<void> sound = CheckSignalLead(wanted.spec); !sound) return sound.error();
  return std::nullopt;
}

// What a plan worker is asked for a spec that is not a job yet; the reply is given here when that
// is hopeless.
template <class Asked>
std::optional<effect::PlanWanted> WantPlan(Draft& draft, const Asked& event) {
  effect::PlanWanted wanted;
  wanted.request = event.request;
  wanted.owner = event.caller.user;
  wanted.spec = FirstElement(event.spec);
  wanted.context = event.context;
  wanted.offers = MakeOffers(draft.state());
  wanted.questions.history = HistoryFor(draft.state(), event.caller.user);
  wanted.now = draft.wall();
  std::optional<Error> error;
  if (const Result<void> known = CheckDependencies(draft.state(), event.spec); !known) {
    error = known.error();
  } else if (const Result<void> apart = CheckArray(event.spec, event.context); !apart) {
    error = apart.error();
  } else {
    error = Hopeless(wanted);
  }
  if (error) {
    draft.Reply(event.request, Unexpected(std::move(*error)));
    return std::nullopt;
  }
  wanted.ticket = draft.live().next_ticket++;
  return wanted;
}

std::size_t JobsIn(const JobSpec& spec) { return spec.array ? spec.array->indices.size() : 1; }

// The command line says so with file and line; other clients may not have asked.
std::optional<Error> WhyBadLease(const JobSpec& spec) {
  if (!spec.requeue_after || 2 * spec.stop_duration < *spec.requeue_after) return std::nullopt;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("stop_duration ({}) is not shorter than half of requeue_after ({})",
                           FormatDuration(spec.stop_duration), FormatDuration(*spec.requeue_after)),
               "make stop_duration shorter or requeue_after longer",
               {}};
}

}  // namespace

// A submit that waits for its plan counts too, or a burst would pass before the first is stored.
std::optional<Error> WhyFull(const State& state, const UserName& user, std::size_t more) {
  if (state.live.store_low) {
    return Error{ErrorCode::kResourceExhausted,
                 "the disk of the controller's store is full",
                 "an operator must make room there; what runs goes on, and cancels work",
                 {}};
  }
  const Limits& limits = state.live.limits;
  const auto open = state.open.find(user);
  std::size_t of_user = open == state.open.end() ? 0 : open->second.size();
  for (const auto& [ticket, submit] : state.live.submits)
    of_user += submit.caller.user == user ? JobsIn(submit.spec) : 0;
  if (of_user + more > limits.jobs_of_a_user) {
    return Error{ErrorCode::kResourceExhausted,
                 fmt::format("{} has {} jobs that are not done; a user may have {}", user.value,
                             of_user, limits.jobs_of_a_user),
                 "wait for some of them, or cancel some: `launch queue --user me`",
                 {}};
  }
  std::size_t queued = state.queue.size();
  for (const auto& [ticket, submit] : state.live.submits) queued += JobsIn(submit.spec);
  if (queued + more <= limits.queued) return std::nullopt;
  return Error{ErrorCode::kResourceExhausted,
               fmt::format("{} jobs are queued; {} may be", queued, limits.queued),
               "submit again when the queue is shorter",
               {}};
}

void OnUser(Draft& draft, const event::Submit& event) {
  const State& state = draft.state();
  if (const auto known = state.idem.find({event.caller.user, event.idempotency_key});
      known != state.idem.end() && !Planted(Bug::kDoubleSubmit)) {
    if (known->second.digest != event.digest) {
      draft.Reply(
          event.request,
          Fail(ErrorCode::kAlreadyExists,
               fmt::format("this idempotency key was used for job {} with other content",
                           known->second.job.value),
               fmt::format("`launch status {}` shows that job; another key submits one more",
                           known->second.job.value)));
      return;
    }
    reply::Submitted answer;
    answer.job = answer.first = known->second.job;
    if (const auto array = state.arrays.find(answer.job); array != state.arrays.end()) {
      answer.first = *array->second.begin();
      answer.elements = static_cast<std::uint32_t>(array->second.size());
    }
    const auto found = state.jobs.find(answer.first);
    if (found == state.jobs.end()) {
      draft.Reply(event.request,
                  Fail(ErrorCode::kNotFound,
                       fmt::format("job {} of this idempotency key ended long ago and was let go",
                                   answer.job.value),
                       "submit with another key to run it again"));
      return;
    }
    const JobRecord& job = found->second;
    answer.known = true;
    answer.state = ShownState(state, job);
    answer.answer.findings = job.findings;
    if (const auto plan = state.plans.find(Key{job.id, Attempt{job.attempts}});
        plan != state.plans.end()) {
      answer.answer.plan = plan->second->plan;
    }
    if (job.phase == JobPhase::kQueued) answer.answer.waits = WhyWaiting(state, job);
    draft.Reply(event.request, ReplyBody(std::move(answer)));
    return;
  }
  if (auto bad = WhyBadLease(event.spec)) {
    draft.Reply(event.request, Unexpected(std::move(*bad)));
    return;
  }
  if (auto full = WhyFull(state, event.caller.user, JobsIn(event.spec))) {
    draft.Reply(event.request, Unexpected(std::move(*full)));
    return;
  }
  std::optional<effect::PlanWanted> wanted = WantPlan(draft, event);
  if (!wanted) return;
  draft.live().submits.emplace(wanted->ticket, event);
  draft.Want(std::move(*wanted));
}

void OnUser(Draft& draft, const event::PlanQuery& event) {
  std::optional<effect::PlanWanted> wanted = WantPlan(draft, event);
  if (!wanted) return;
  // The cluster's runs come after what the user brings: the newest of equals counts.
  std::vector<MeasuredRun> known = std::move(wanted->questions.history);
  wanted->questions = event.questions;
  std::vector<MeasuredRun>& history = wanted->questions.history;
  history.insert(history.end(), known.begin(), known.end());
  draft.live().queries.emplace(wanted->ticket, event);
  draft.Want(std::move(*wanted));
}

void OnUser(Draft& draft, const event::Cancel& event) {
  reply::Cancelled answer;
  for (const JobId id : event.jobs) {
    reply::CancelResult result;
    result.job = id;
    const auto found = draft.state().jobs.find(id);
    if (found == draft.state().jobs.end()) {
      result.error = NoSuchJob(id).value();
    } else if (!MayDo(JobAct::kCancel, event.caller, found->second.owner)) {
      result.error =
          Error{ErrorCode::kPermissionDenied,
                fmt::format("user {} may not cancel job {}", event.caller.user.value, id.value),
                "only its owner or an operator may", std::nullopt};
    } else if (found->second.phase == JobPhase::kDone) {
      result.already_done = true;
      result.held = StillHeld(draft.state(), id, draft.now());
    } else {
      JobRecord job = found->second;
      if (job.cancelled_by.empty()) {
        job.cancelled_by = event.caller.user.value;
        job.cancelled_at = draft.wall();
        draft.Event("job.cancelled", Subject(id), "by " + job.cancelled_by);
        draft.Put(job);
        // One that stops for another cause is told anew.
        auto& live = draft.live().attempts;
        const auto newest = live.find(Key{id, Attempt{job.attempts}});
        if (newest != live.end()) newest->second.asked.clear();
      }
      StopUnknown(draft, id);
      EndUnseen(draft, id);
      SettleJob(draft, id);
      result.held = StillHeld(draft.state(), id, draft.now());
    }
    answer.results.push_back(std::move(result));
  }
  draft.Reply(event.request, ReplyBody(std::move(answer)));
}

void OnUser(Draft& draft, const event::NoteProbe& event) {
  const auto found = draft.state().jobs.find(event.job);
  if (found == draft.state().jobs.end() ||
      !MayDo(JobAct::kNoteProbe, event.caller, found->second.owner)) {
    draft.Reply(event.request, NoSuchJob(event.job));
    return;
  }
  if (!draft.state().specs.at(event.job).spec.debug) {
    draft.Reply(event.request,
                Fail(ErrorCode::kFailedPrecondition,
                     fmt::format("job {} is no probe: what it measures is noted as it runs",
                                 event.job.value),
                     "launch plan JOBFILE --probe"));
    return;
  }
  if (!event.network.empty()) {
    const auto attempt = draft.state().attempts.find({event.job, Attempt{found->second.attempts}});
    if (found->second.outcome != JobState::kSucceeded || attempt == draft.state().attempts.end() ||
        attempt->second.nodes.size() != event.network.size()) {
      draft.Reply(event.request, Fail(ErrorCode::kFailedPrecondition,
                                      fmt::format("job {} is no test of {} nodes that ended well",
                                                  event.job.value, event.network.size()),
                                      "launch check --network"));
      return;
    }
    NoteNetwork(draft, Subject(event.job), attempt->second.nodes, event.network);
  }
  if (event.point && found->second.probe != event.point) {
    JobRecord job = found->second;
    job.probe = event.point;
    draft.Put(job);
    draft.Event("job.probed", Subject(event.job),
                fmt::format("micro-batch {}: {} at most, {:.3g} s a step", event.point->micro,
                            FormatBytes(static_cast<std::uint64_t>(event.point->peak_bytes)),
                            event.point->step_seconds));
  }
  draft.Reply(event.request, ReplyBody(reply::Done{}));
}

void OnUser(Draft& draft, const event::ListJobs& event) {
  reply::Jobs answer;
  const auto take = [&](const JobRecord& job) {
    if (!event.all_users && job.owner != event.caller.user) return;
    if (!event.include_done && job.phase == JobPhase::kDone) return;
    answer.jobs.push_back(ViewJob(draft.state(), job, false, draft.now()));
  };
  if (!event.array) {
    for (const auto& [id, job] : draft.state().jobs) take(job);
  } else if (const auto found = draft.state().arrays.find(*event.array);
             found != draft.state().arrays.end()) {
    for (const JobId id : found->second) take(draft.state().jobs.at(id));
  }
  draft.Reply(event.request, ReplyBody(std::move(answer)));
}

void OnUser(Draft& draft, const event::GetJob& event) {
  const auto found = draft.state().jobs.find(event.job);
  if (found == draft.state().jobs.end()) {
    draft.Reply(event.request, NoSuchJob(event.job));
    return;
  }
  const bool full = MayDo(JobAct::kSeeInFull, event.caller, found->second.owner);
  JobView view = ViewJob(draft.state(), found->second, full, draft.now());
  std::vector<effect::ReadPlans::Stored> missing;
  if (full && event.plans) {
    if (found->second.phase == JobPhase::kQueued) {
      view.findings.push_back(
          AsFinding(ForecastStart(draft.state(), found->second, draft.clock()), draft.clock()));
    }
    AddPlans(draft.state(), view);
    missing = PlansNotHere(draft.state(), event.job);
  }
  if (missing.empty()) {
    draft.Reply(event.request, ReplyBody(std::move(view)));
  } else {
    draft.ReadPlans({event.request, std::move(view), std::move(missing)});
  }
}

void OnUser(Draft& draft, const event::ListNodes& event) {
  reply::Nodes answer;
  for (const auto& [id, node] : draft.state().nodes) {
    if (!draft.state().inventories.contains(id)) continue;  // joined, never attached
    answer.nodes.push_back(ViewNode(draft.state(), id, draft.clock()));
  }
  draft.Reply(event.request, ReplyBody(std::move(answer)));
}

}  // namespace launch::controller
