#include "controller/core/views.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/units.h"
#include "controller/core/draft.h"
#include "controller/core/gpu_watch.h"
#include "controller/core/hang_watch.h"
#include "controller/core/measured_runs.h"
#include "controller/core/memory_watch.h"
#include "controller/core/node_watch.h"
#include "planner/trainer/probe_plan.h"

namespace launch::controller {
namespace {

const AttemptRecord* NewestAttempt(const State& state, const JobRecord& job) {
  const auto found = state.attempts.find(Key{job.id, Attempt{job.attempts}});
  return found == state.attempts.end() ? nullptr : &found->second;
}

// Since when a node is silent; absent while it answers.
std::optional<BootTime> QuietSince(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  if (live == state.live.nodes.end()) return state.live.since;
  if (!live->second.silent) return std::nullopt;
  return std::max(live->second.silent_since, state.live.since);
}

// "silent for 2m10s".
std::string SilentWords(BootTime since, BootTime now) {
  return "silent for " + FormatDurationShort(std::max(Millis{0}, now - since));
}

// "; gpu1 is silent for 2m10s", of the first three.
std::string SilentNodes(const State& state, const std::vector<NodeId>& nodes, BootTime now) {
  std::string text;
  int silent = 0;
  for (const NodeId& node : nodes) {
    const auto since = QuietSince(state, node);
    if (since && ++silent <= 3)
      text += fmt::format("; {} is {}", node.value, SilentWords(*since, now));
  }
  if (silent > 3) text += fmt::format("; so are {} more", silent - 3);
  return text;
}

// A node of the attempt that is silent and still has something to say about it.
bool WaitsForSilentNode(const State& state, const AttemptRecord& attempt) {
  const auto allocs = state.allocs.find(attempt.key);
  if (allocs == state.allocs.end()) return false;
  return std::any_of(allocs->second.begin(), allocs->second.end(), [&](const auto& entry) {
    if (IsReleased(entry.second)) return false;
    return QuietSince(state, entry.first).has_value();
  });
}

std::string ShownPhase(const State& state, const AttemptRecord& attempt) {
  switch (attempt.phase) {
    case AttemptPhase::kPreparing: {
      const auto live = state.live.attempts.find(attempt.key);
      return live != state.live.attempts.end() && live->second.staging_began ? "staging"
                                                                             : "preparing";
    }
    case AttemptPhase::kLaunching:
      return "launching";
    case AttemptPhase::kRunning:
      return "running";
    case AttemptPhase::kStopping:
      return "stopping";
    case AttemptPhase::kEnded:
      return "ended";
  }
  return "";
}

// What a starting job is doing: "staging: setup on gpu01".
std::string StartingStep(const State& state, const AttemptRecord& attempt) {
  const auto live = state.live.attempts.find(attempt.key);
  if (live != state.live.attempts.end()) {
    for (const auto& [node, staging] : live->second.staging) {
      if (live->second.ready.contains(node)) continue;
      return fmt::format("{} on {}{}{}", staging.step, node.value, staging.line.empty() ? "" : ": ",
                         staging.line);
    }
  }
  return ShownPhase(state, attempt);
}

// Progress as rank 0 prints it; some trainers print it on the last rank only. Null: nobody does.
const RankSample* TellingSample(const State& state, const AttemptRecord& attempt) {
  const auto live = state.live.attempts.find(attempt.key);
  if (live == state.live.attempts.end() || live->second.samples.empty()) return nullptr;
  const RankSample* first = &live->second.samples.begin()->second;
  const RankSample* last = &live->second.samples.rbegin()->second;
  return first->step ? first : last->step ? last : nullptr;
}

// For lists, which others see too: no word of the program's output.
Verdict InShort(const Verdict& verdict) {
  Verdict v;
  v.label = verdict.label;
  v.confidence = verdict.confidence;
  v.action = verdict.action;
  return v;
}

AttemptView ViewAttempt(const State& state, const AttemptRecord& attempt, bool full) {
  AttemptView view;
  view.attempt = attempt.key.attempt;
  view.phase = ShownPhase(state, attempt);
  view.outcome = attempt.outcome;
  view.cause = attempt.cause;
  view.nodes = attempt.nodes;
  if (!attempt.master_address.empty()) {
    view.master = fmt::format("{}:{}", attempt.master_address, attempt.master_port);
  }
  view.resumed_from = attempt.resumed_from;
  view.first_failed_rank = attempt.first_failed_rank;
  view.first_failed_node = attempt.first_failed_node;
  view.started = attempt.started;
  view.ended = attempt.ended;
  view.batch = attempt.plan.batch;
  view.change = attempt.change;
  view.verdict = attempt.verdict;
  if (!full) {
    if (view.verdict) view.verdict = InShort(*view.verdict);
    return view;
  }
  for (const EnvVar& late : attempt.late_env) view.env[late.name] = late.value;
  const auto ranks = state.ranks.find(attempt.key);
  const auto allocs = state.allocs.find(attempt.key);
  if (allocs == state.allocs.end()) return view;
  for (const auto& [node, alloc] : allocs->second) {
    for (const Rank rank : alloc.ranks) {
      RankView row;
      row.rank = rank;
      row.node = node;
      row.state = "waiting";
      if (ranks != state.ranks.end()) {
        if (const auto found = ranks->second.find(rank); found != ranks->second.end()) {
          row.pid = found->second.pid;
          row.exit = found->second.exit;
          row.state = row.exit ? "exited" : "running";
          if (!row.exit) row.memory = MemoryOf(state, alloc.key, found->second);
        }
      }
      view.ranks.push_back(std::move(row));
    }
  }
  std::sort(view.ranks.begin(), view.ranks.end(),
            [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
  return view;
}

void ShowProgress(const State& state, const AttemptRecord& attempt, JobView& view) {
  const LastProgress last = ProgressOf(state, attempt);
  view.step = last.step;
  view.steps = last.steps ? last.steps : attempt.plan.steps;
  view.seconds_per_step = last.seconds_per_step;
  if (attempt.phase == AttemptPhase::kEnded) return;  // nothing is left to wait for
  if (const RankSample* sample = TellingSample(state, attempt)) view.eta_s = sample->eta_s;
  // The rank may not know the total that the job file gives.
  if (!view.eta_s && view.step && view.steps && view.seconds_per_step) {
    view.eta_s = *view.seconds_per_step *
                 static_cast<double>(std::max<std::int64_t>(*view.steps - *view.step, 0));
  }
}

// Parts of a running attempt whose end nobody will see.
std::vector<Finding> LostRecords(const State& state, const Key& key) {
  std::vector<Finding> findings;
  const auto live = state.live.attempts.find(key);
  if (live == state.live.attempts.end()) return findings;
  for (const auto& [node, how] : live->second.unrecorded) {
    findings.push_back(
        {"record_lost", Severity::kWarning, node, how.why,
         "the agent there does not have the state directory of the one that started the ranks",
         fmt::format("launch requeue {0}   # or: launch cancel {0}", key.job.value)});
  }
  return findings;
}

int GpusAskedFor(const JobSpec& spec) {
  if (spec.total_gpus) return *spec.total_gpus;
  if (!spec.gpu_ids.empty()) return static_cast<int>(spec.gpu_ids.size()) * spec.nodes.min;
  return spec.gpus.empty() ? 0 : spec.gpus.front().count * spec.nodes.min;
}

}  // namespace

LastProgress ProgressOf(const State& state, const AttemptRecord& attempt) {
  if (attempt.phase == AttemptPhase::kEnded) return attempt.progress;
  const RankSample* sample = TellingSample(state, attempt);
  if (sample == nullptr) return {};
  return {sample->step, sample->steps, sample->seconds_per_step};
}

JobState ShownState(const State& state, const JobRecord& job) {
  if (job.phase == JobPhase::kDone) return job.outcome.value_or(JobState::kFailed);
  if (job.phase == JobPhase::kQueued) {
    return job.attempts == 0 ? JobState::kPending : JobState::kRequeued;
  }
  const AttemptRecord* attempt = NewestAttempt(state, job);
  if (attempt == nullptr) return JobState::kStarting;
  switch (attempt->phase) {
    case AttemptPhase::kPreparing:
    case AttemptPhase::kLaunching:
      return JobState::kStarting;
    case AttemptPhase::kRunning:
      return WaitsForSilentNode(state, *attempt) ? JobState::kUnreachable : JobState::kRunning;
    case AttemptPhase::kStopping:
    case AttemptPhase::kEnded:
      return JobState::kStopping;
  }
  return JobState::kStarting;
}

WaitReason WhyWaiting(const State& state, const JobRecord& job) {
  WaitReason reason{"Priority", "not looked at yet"};
  if (const auto found = state.live.reasons.find(job.id); found != state.live.reasons.end()) {
    reason = found->second;
  } else if (state.live.queue_head) {
    reason.evidence = fmt::format("behind {}", state.live.queue_head->value);
  }
  if (job.attempts == 0) return reason;
  // What a user wants to know of a retry comes first: which it is, and what for.
  reason.evidence =
      fmt::format("attempt {} after {}; {}", job.attempts + 1, job.requeue_cause, reason.evidence);
  return reason;
}

std::vector<std::string> StillHeld(const State& state, JobId job, BootTime now) {
  std::vector<std::string> held;
  for (auto entry = state.allocs.lower_bound(Key{job, Attempt{0}});
       entry != state.allocs.end() && entry->first.job == job; ++entry) {
    for (const auto& [node, alloc] : entry->second) {
      if (IsReleased(alloc)) {
        for (const auto& [gpu, why] : alloc.held) {
          if (!state.quarantine.contains(gpu)) continue;
          held.push_back(fmt::format("{}: {} ({})", node.value, gpu.value, why));
        }
        continue;
      }
      const auto silent = QuietSince(state, node);
      held.push_back(fmt::format(
          "{}: {}{} {} of attempt {}{}", node.value,
          alloc.gpus.empty()
              ? ""
              : fmt::format("{} GPU{}, ", alloc.gpus.size(), alloc.gpus.size() == 1 ? "" : "s"),
          alloc.ranks.size(), alloc.ranks.size() == 1 ? "rank" : "ranks",
          entry->first.attempt.value, silent ? "; the node is " + SilentWords(*silent, now) : ""));
    }
  }
  return held;
}

std::vector<effect::ReadPlans::Stored> PlansNotHere(const State& state, JobId job) {
  std::vector<effect::ReadPlans::Stored> plans;
  for (auto entry = state.attempts.lower_bound(Key{job, Attempt{0}});
       entry != state.attempts.end() && entry->first.job == job; ++entry) {
    if (state.plans.contains(entry->first)) continue;
    plans.push_back({entry->first, entry->second.plan_chunks, entry->second.plan_digest});
  }
  return plans;
}

void AddPlan(JobView& view, Attempt attempt, const StoredPlan& plan) {
  for (AttemptView& one : view.attempts) {
    if (one.attempt != attempt || plan.plan.assignments.empty()) continue;
    // The late values, which stand there already, win.
    const auto& env = plan.plan.assignments.front().env;
    one.env.insert(env.begin(), env.end());
  }
  if (!view.attempts.empty() && view.attempts.back().attempt == attempt) view.plan = plan.plan;
}

void AddPlans(const State& state, JobView& view) {
  for (auto plan = state.plans.lower_bound(Key{view.id, Attempt{0}});
       plan != state.plans.end() && plan->first.job == view.id; ++plan) {
    AddPlan(view, plan->first.attempt, *plan->second);
  }
}

JobView ViewJob(const State& state, const JobRecord& job, bool full, BootTime now) {
  JobView view;
  view.id = job.id;
  view.name = job.name;
  view.user = job.owner.value;
  view.array = job.array;
  view.array_index = job.array_index;
  view.state = ShownState(state, job);
  view.sub_reason = job.sub_reason;
  view.outcome = job.outcome_text;
  view.exit_code = job.exit_code;
  view.cancelled_by = job.cancelled_by;
  view.submitted = job.submitted;
  view.started = job.started;
  view.ended = job.ended;
  view.findings = job.findings;
  view.held = StillHeld(state, job.id, now);
  const JobSpec& spec = state.specs.at(job.id).spec;
  view.kind = spec.check_only ? "check" : IsProbe(spec) ? "probe" : spec.debug ? "debug" : "job";
  if (full) {
    view.git_commit = state.specs.at(job.id).context.git_commit;
    view.git_diff = state.specs.at(job.id).context.git_diff;
  }
  view.nodes = spec.nodes.min;
  view.priority = spec.priority;
  view.gpus = GpusAskedFor(spec);
  view.strategy = std::string(ToString(spec.strategy));
  const AttemptRecord* newest = NewestAttempt(state, job);
  if (job.phase == JobPhase::kQueued) {
    view.reason = WhyWaiting(state, job);
    view.reason.evidence += SilentNodes(state, view.reason.unavailable, now);
    if (job.attempts > 0) view.outcome = job.requeue_cause;
    if (job.keeps != 0 && newest != nullptr) view.nodelist = newest->nodes;
  } else if (newest != nullptr) {
    view.nodelist = newest->nodes;
    view.nodes = static_cast<int>(newest->nodes.size());
    view.gpus = 0;
    if (const auto allocs = state.allocs.find(newest->key); allocs != state.allocs.end()) {
      for (const auto& [node, alloc] : allocs->second) {
        view.gpus += static_cast<int>(alloc.gpus.size());
      }
    }
    if (view.state == JobState::kStarting) {
      view.reason = {"Starting", StartingStep(state, *newest)};
    } else if (view.state == JobState::kUnreachable || view.state == JobState::kStopping) {
      for (const auto& [node, alloc] : state.allocs.at(newest->key)) {
        if (!IsReleased(alloc) && UnseenSince(state, newest->key, node)) {
          view.reason = {"RanksUnseen",
                         state.live.attempts.at(newest->key).unrecorded.at(node).why};
          break;
        }
        const auto silent = QuietSince(state, node);
        if (IsReleased(alloc) || !silent) continue;
        view.reason = {"NodeSilent", fmt::format("{} is {}; what it holds stays held", node.value,
                                                 SilentWords(*silent, now))};
        break;
      }
    }
    ShowProgress(state, *newest, view);
    if (view.state == JobState::kRunning) {
      for (const auto& warnings :
           {GpuFailures(state, newest->key), LostRecords(state, newest->key),
            MemoryWarnings(state, newest->key), HangWarnings(state, newest->key)}) {
        view.findings.insert(view.findings.end(), warnings.begin(), warnings.end());
      }
    }
    view.measured = MeasuredOf(state, job);
  }
  if (newest != nullptr) view.strategy = std::string(ToString(newest->plan.strategy));
  for (auto entry = state.attempts.lower_bound(Key{job.id, Attempt{0}});
       entry != state.attempts.end() && entry->first.job == job.id; ++entry) {
    view.attempts.push_back(ViewAttempt(state, entry->second, full));
  }
  if (full) view.spec = spec;
  return view;
}

NodeView ViewNode(const State& state, const NodeId& node, const Now& now) {
  NodeView view;
  view.inventory = *state.inventories.at(node);
  view.health = HealthOf(view.inventory);
  const NodeRecord& record = state.nodes.at(node);
  view.account = record.account;
  view.drained = record.drained;
  view.reason = WhyUnschedulable(state, node);
  view.schedulable = view.reason.empty();
  const effect::NodeOffer offer = MakeOffer(state, node);
  for (const int index : offer.free_gpus) {
    view.free_gpus.push_back(view.inventory.gpus[static_cast<std::size_t>(index)].uuid);
  }
  const bool full = view.inventory.gpus.empty() ? offer.free_cpus == 0 : offer.free_gpus.empty();
  std::set<JobId> jobs;
  if (const auto held = state.held_by_node.find(node); held != state.held_by_node.end()) {
    for (const Key& key : held->second) jobs.insert(key.job);
  }
  for (const JobId job : state.keepers) {
    if (FindAlloc(state, Key{job, Attempt{state.jobs.at(job).keeps}}, node)) jobs.insert(job);
  }
  view.jobs.assign(jobs.begin(), jobs.end());
  for (const auto& [gpu, quarantine] : state.quarantine) {
    if (quarantine.node == node) view.quarantined.emplace_back(gpu, WhyHeld(state, quarantine));
  }
  const auto live = state.live.nodes.find(node);
  if (live != state.live.nodes.end()) {
    view.last_seen = live->second.last_seen;
    view.samples = live->second.samples;
    if (view.reason.empty() && !live->second.busy_gpus.empty())
      view.reason = live->second.busy_gpus.begin()->second.why;
    if (view.reason.empty() && live->second.rival_seen &&
        now.boot - *live->second.rival_seen < 2 * kRivalShown) {
      view.reason = "a second agent with its identity is refused: was its state directory copied?";
    }
    if (const auto since = QuietSince(state, node)) {
      view.silent_ms = std::max<std::int64_t>(1, (now.boot - *since).count());
      view.reason = SilentWords(*since, now.boot) + ": " + live->second.silent_why;
    }
  }
  if (!record.fenced_by.empty()) {
    view.state = "fenced";
    view.reason = "fenced by " + record.fenced_by + ": it counts as without power until it is back";
  } else if (live == state.live.nodes.end()) {
    view.state = "unknown";
  } else if (live->second.silent) {
    view.state = "silent";
  } else if (record.drained) {
    view.state = "drain";
  } else if (jobs.empty()) {
    view.state = "idle";
  } else {
    view.state = full ? "alloc" : "mix";
  }
  // Of one that is silent as well both are said, as it stays drained when it is back.
  const std::string drained = WhyDrained(record);
  if (!view.reason.starts_with(drained))
    view.reason = drained + (view.reason.empty() ? "" : "; " + view.reason);
  return view;
}

}  // namespace launch::controller
