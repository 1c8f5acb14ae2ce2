// Answers of the plan workers: a submitted job becomes a record, a placed one becomes an attempt.
#include <fmt/format.h>

#include <algorithm>

#include "common/planted.h"
#include "controller/core/draft.h"
#include "controller/core/expected_start.h"
#include "controller/core/fold_findings.h"
#include "controller/core/kept_place.h"
#include "controller/core/offers.h"
#include "controller/core/unknown_attempts.h"
#include "planner/planner.h"
#include "preflight/checked_text.h"

namespace launch::controller {
namespace {

Error PreflightError(const std::vector<Finding>& findings) {
  Error error{ErrorCode::kPreflightFailed, "", "", std::nullopt};
  int errors = 0;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError) continue;
    if (errors++ == 0) {
      error.message = fmt::format("{}: {}", finding.code, finding.says);
      error.hint = finding.remedy;
    }
  }
  if (errors > 1) error.message += fmt::format(" (and {} more)", errors - 1);
  return error;
}

void AnswerQuery(Draft& draft, const event::PlanQuery& query, const PlanOutcome& outcome) {
  if (outcome.error) {
    draft.Reply(query.request, Unexpected(*outcome.error), outcome.findings);
    return;
  }
  PlanAnswer answer{outcome.plan, outcome.findings, std::nullopt, outcome.checks};
  if (!outcome.line) return draft.Reply(query.request, ReplyBody(std::move(answer)));
  const std::vector<effect::NodeOffer> offers = MakeOffers(draft.state());
  const UserName& user = query.caller.user;
  const Result<LineDemand>& line = *outcome.line;
  const auto placed = Place(query.spec, ForPlanner(offers, user), line);
  const auto repair =
      placed ? std::nullopt
             : WaitsForRepair(draft.state(), placed.error(), query.spec, line, user, offers);
  const bool early = query.spec.begin && *query.spec.begin > draft.wall();
  if (early) {
    answer.waits = WaitForBegin(*query.spec.begin, draft.wall());
  } else if (repair) {
    answer.waits = repair;
  } else if (draft.live().queue_head) {
    answer.waits = WaitReason{"Priority", fmt::format("behind {}", draft.live().queue_head->value)};
  } else if (!placed) {
    answer.waits = placed.error().reason;
  }
  if (answer.waits) {
    const StartForecast start = ForecastStart(draft.state(), query, line, draft.clock());
    if (!early || start.start != query.spec.begin)
      answer.waits->evidence += "; expected start " + InWords(start, draft.clock());
  }
  draft.Reply(query.request, ReplyBody(std::move(answer)));
}

JobId NextJob(Draft& draft) {
  ClusterRecord cluster = draft.state().cluster;
  const JobId id{cluster.next_job++};
  draft.Put(cluster);
  return id;
}

void PutJob(Draft& draft, JobId id, const event::Submit& submit, const JobSpec& spec,
            const PlanOutcome& outcome) {
  JobRecord job;
  job.id = id;
  job.owner = submit.caller.user;
  job.name = spec.name;
  job.held = submit.hold;
  job.forced = submit.force;
  if (spec.element) {
    job.array = spec.element->array;
    job.array_index = spec.element->index;
  }
  job.findings = FoldFindings(outcome.findings);
  job.submitted = draft.wall();
  job.idempotency_key = submit.idempotency_key;
  job.request_digest = submit.digest;
  draft.Put(job);
  draft.Put(SpecRecord{id, spec, submit.source, submit.context});
  if (outcome.line) draft.KeepLine(id, *outcome.line);
  for (const auto& [name, sealed] : submit.secrets) draft.Put(SecretRecord{id, name, sealed});
  draft.Event("job.submitted", Subject(id),
              fmt::format("{} by {}{}", job.name, job.owner.value,
                          job.forced ? ", forced in spite of preflight errors" : ""));
}

void AcceptJob(Draft& draft, const event::Submit& submit, const PlanOutcome& outcome) {
  const bool known = draft.state().idem.contains({submit.caller.user, submit.idempotency_key});
  if (known && !Planted(Bug::kDoubleSubmit)) {
    OnUser(draft, submit);  // a retry of the same request got here first
    return;
  }
  if (outcome.error) {
    draft.Reply(submit.request, Unexpected(*outcome.error), outcome.findings);
    return;
  }
  if (submit.spec.snapshot && submit.context.snapshot.empty()) {
    draft.Reply(
        submit.request,
        Fail(ErrorCode::kInvalidArgument, "snapshot: true, and no copy of workdir came along",
             "submit with a launch of this version"),
        {});
    return;
  }
  if (HasErrors(outcome.findings) && !submit.force) {
    draft.Reply(submit.request, Unexpected(PreflightError(outcome.findings)), outcome.findings);
    return;
  }
  reply::Submitted answer;
  answer.job = answer.first = NextJob(draft);
  if (submit.spec.array) {
    std::vector<ArrayElement> elements = ElementsOf(*submit.spec.array);
    answer.elements = static_cast<std::uint32_t>(elements.size());
    for (ArrayElement& element : elements) {
      const JobId id = NextJob(draft);
      if (answer.first == answer.job) answer.first = id;
      element.array = answer.job;
      PutJob(draft, id, submit, ElementSpec(submit.spec, std::move(element)), outcome);
    }
    draft.Event("array.submitted", Subject(answer.job),
                fmt::format("{} by {}: {} jobs", submit.spec.name, submit.caller.user.value,
                            answer.elements));
  } else {
    PutJob(draft, answer.job, submit, submit.spec, outcome);
  }
  draft.Put(IdemRecord{submit.caller.user, submit.idempotency_key, submit.digest, answer.job});
  draft.TouchQueue();
  answer.answer.plan = outcome.plan;
  answer.answer.findings = outcome.findings;
  draft.Reply(submit.request, ReplyBody(std::move(answer)));
}

// May the attempt still start where it was placed? Its GPUs are kept by its hold.
bool StillValid(const State& state, const Hold& hold) {
  for (std::size_t i = 0; i < hold.nodes.size(); ++i) {
    if (!IsSchedulable(state, hold.nodes[i])) return false;
    const NodeInventory& inventory = *state.inventories.at(hold.nodes[i]);
    for (const GpuUuid& gpu : hold.gpus[i]) {
      if (state.gpu_owner.contains(gpu) || state.quarantine.contains(gpu)) return false;
      const bool healthy =
          std::any_of(inventory.gpus.begin(), inventory.gpus.end(), [&](const GpuDevice& device) {
            return device.uuid == gpu && device.health != Health::kBad;
          });
      if (!healthy) return false;
    }
  }
  return true;
}

void BeginAttempt(Draft& draft, JobRecord job, const Hold& hold, const PlanOutcome& outcome) {
  AttemptRecord attempt;
  attempt.key = Key{job.id, hold.attempt};
  attempt.plan_digest = outcome.stored_digest;
  attempt.nodes = hold.nodes;
  attempt.created = draft.wall();
  attempt.change = std::exchange(job.change_text, {});
  attempt.plan = {outcome.plan->strategy, outcome.plan->steps, outcome.plan->batch,
                  outcome.plan->run};
  for (std::size_t at = 0; at < outcome.stored.size(); at += kChunkBytes) {
    draft.Put(PlanChunkRecord{attempt.key, attempt.plan_chunks++,
                              outcome.stored.substr(at, kChunkBytes)});
  }
  draft.EraseChunks(attempt.key, attempt.plan_chunks);
  // The attempt is put before its allocations so that no prefix of the records owns a GPU for
  // nobody.
  draft.Put(attempt);
  for (const PlannedAllocation& planned : outcome.allocations) {
    AllocRecord alloc;
    alloc.key = attempt.key;
    alloc.node = planned.spec.node;
    alloc.digest = planned.digest;
    alloc.gpus = planned.spec.gpus;
    alloc.cpus = planned.spec.cpus;
    alloc.memory_bytes = hold.memory_bytes;
    for (const RankSpec& rank : planned.spec.ranks) alloc.ranks.push_back(rank.rank);
    draft.Put(alloc);
  }
  draft.KeepPlan(attempt.key, StoredPlan{*outcome.plan, outcome.allocations});
  job.phase = JobPhase::kActive;
  job.attempts = hold.attempt.value;
  if (const std::uint32_t kept = std::exchange(job.keeps, 0)) {
    TakeOverStaging(draft, attempt.key, Attempt{kept});
  }
  job.findings =
      FoldFindings(outcome.findings);  // of these nodes; what they find while staging is added
  job.not_before = WallTime{};
  draft.live().not_before.erase(job.id);
  draft.live().reasons.erase(job.id);
  draft.Put(job);
  std::string nodes;
  for (const NodeId& node : attempt.nodes) nodes += (nodes.empty() ? "" : ",") + node.value;
  draft.Event("attempt.preparing", Subject(attempt.key), "on " + nodes);
  if (!outcome.checks.empty()) {
    draft.Event("attempt.checked", Subject(attempt.key), CheckedText(outcome.checks));
  }
}

// Whether its attempt begins.
bool PlacePlanned(Draft& draft, JobId id, std::uint64_t ticket, const PlanOutcome& outcome) {
  const auto held = draft.live().holds.find(id);
  if (held == draft.live().holds.end() || held->second.ticket != ticket) return false;
  const Hold hold = held->second;
  draft.live().holds.erase(held);
  const auto found = draft.state().jobs.find(id);
  if (found == draft.state().jobs.end() || found->second.phase != JobPhase::kQueued) return false;
  const JobRecord& job = found->second;
  if (outcome.error || !outcome.plan || outcome.stored.empty()) {
    Ending ending;
    ending.outcome = "failed";
    ending.sub_reason = "PLAN";
    ending.text = outcome.error ? outcome.error->message : "the planner made no plan";
    ending.blame = Blame::kPlan;
    ending.findings = outcome.findings;
    EndJob(draft, job, ending);
    return false;
  }
  if (HasErrors(outcome.findings) && !job.forced) {
    Ending ending;
    ending.outcome = "failed";
    ending.sub_reason = "PREFLIGHT";
    ending.text = PreflightError(outcome.findings).message;
    ending.blame = Blame::kPlan;
    ending.findings = outcome.findings;
    EndJob(draft, job, ending);
    return false;
  }
  if (!StillValid(draft.state(), hold) || !WhyRunsAlready(draft.state(), id).empty()) return false;
  BeginAttempt(draft, job, hold, outcome);
  return true;
}

// A queue of thousands is looked at when half of the plans it waits for are made, not with each.
bool HasPlansEnough(const Live& live) {
  return live.waits_for_plans && 2 * live.holds.size() > live.limits.planned_at_once;
}

}  // namespace

void OnPlanned(Draft& draft, const event::Planned& event) {
  Live& live = draft.live();
  if (const auto query = live.queries.find(event.ticket); query != live.queries.end()) {
    const event::PlanQuery asked = query->second;
    live.queries.erase(query);
    AnswerQuery(draft, asked, event.outcome);
  } else if (const auto found = live.submits.find(event.ticket); found != live.submits.end()) {
    const event::Submit submit = found->second;
    live.submits.erase(found);
    AcceptJob(draft, submit, event.outcome);
  } else if (const auto placing = live.placings.find(event.ticket);
             placing != live.placings.end()) {
    const JobId job = placing->second;
    live.placings.erase(placing);
    const bool begins = PlacePlanned(draft, job, event.ticket, event.outcome);
    if (!begins || !HasPlansEnough(live)) draft.TouchQueue();
  }
}

}  // namespace launch::controller
