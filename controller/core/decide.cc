#include "controller/core/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/planted.h"
#include "controller/core/draft.h"
#include "controller/core/unknown_attempts.h"
#include "controller/core/views.h"

namespace launch::controller {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// Draws consequences until nothing more follows, then tells the nodes.
void Settle(Draft& draft) {
  for (;;) {
    if (const std::optional<JobId> job = draft.NextTouched()) {
      SettleJob(draft, *job);
    } else if (draft.TakeQueueTouched()) {
      SettleQueue(draft);
    } else {
      break;
    }
  }
  for (const JobId job : draft.seen()) AskNodes(draft, job);
}

// A new job's answer says why it waits, which is known only once the queue was looked at.
void CompleteAnswers(Draft& draft) {
  for (Effect& effect : draft.decision().effects) {
    auto* reply = std::get_if<effect::Reply>(&effect);
    if (reply == nullptr || !reply->body) continue;
    auto* submitted = std::get_if<reply::Submitted>(&*reply->body);
    if (submitted == nullptr || submitted->known) continue;
    const JobRecord& job = draft.state().jobs.at(submitted->first);
    submitted->state = ShownState(draft.state(), job);
    if (job.phase == JobPhase::kQueued) {
      submitted->answer.waits = WhyWaiting(draft.state(), job);
    }
  }
}

// After a boot of our host only the wall clock says how long an attempt ran. It is asked once: what
// it said is kept on the boot clock, so that no later jump of it counts.
void RebaseTimeLimits(Draft& draft) {
  const State& state = draft.state();
  for (const JobId job : state.active) {
    const auto found = state.attempts.find(Key{job, Attempt{state.jobs.at(job).attempts}});
    if (found == state.attempts.end() || found->second.phase != AttemptPhase::kRunning) continue;
    if (state.live.host_boot.empty() || Planted(Bug::kWallTimeLimit)) continue;
    if (found->second.started_host_boot == state.live.host_boot) continue;
    AttemptRecord attempt = found->second;
    const Millis ran = std::max(Millis{0}, Millis{draft.wall() - attempt.started});
    attempt.started_boot = draft.now() - ran;
    attempt.started_host_boot = state.live.host_boot;
    draft.Put(attempt);
  }
}

void RearmTimeLimits(State& state, const Now& now) {
  for (const JobId job : state.active) {
    if (!state.live.time_limits.contains(job)) ArmTimeLimit(state.live, state, job, now);
  }
}

// Nothing asks for the plan of an attempt that ended but `status`, and that can read the store. It
// stays until no refused batch can bring the attempt back to life.
void LetPlansGo(State& state, BootTime now) {
  for (auto ended = state.live.ended.begin(); ended != state.live.ended.end();) {
    if (now - ended->second < kPlansKept) {
      ++ended;
      continue;
    }
    const auto attempt = state.attempts.find(ended->first);
    if (attempt != state.attempts.end() && attempt->second.phase == AttemptPhase::kEnded) {
      state.plans.erase(ended->first);
      state.plan_chunks.erase(ended->first);
    }
    ended = state.live.ended.erase(ended);
  }
}

// The first chunks of the attempt's plan, as many as its record names; what is beyond them belongs
// to a plan that was never committed.
Result<StoredPlan> ReadPlan(const State& state, const PlanDecoder& decode,
                            const AttemptRecord& attempt) {
  const auto chunks = state.plan_chunks.find(attempt.key);
  std::string bytes;
  for (std::uint32_t number = 0; number < attempt.plan_chunks; ++number) {
    if (chunks == state.plan_chunks.end() || !chunks->second.contains(number)) {
      return Fail(ErrorCode::kDataLoss, "chunks are missing");
    }
    bytes += chunks->second.at(number);
  }
  if (bytes.empty()) return Fail(ErrorCode::kDataLoss, "it has no chunks");
  return decode(bytes, attempt.plan_digest);
}

// What has not started yet cannot start without its plan; what runs needs it no more.
void GiveUpPlan(Draft& draft, const Key& key, const std::string& why) {
  AttemptRecord attempt = draft.state().attempts.at(key);
  const std::string text = "its plan cannot be read: " + why;
  draft.Event("attempt.plan_unreadable", Subject(key), text);
  const bool starts =
      attempt.phase == AttemptPhase::kPreparing || attempt.phase == AttemptPhase::kLaunching;
  if (!starts || attempt.stop_cause != StopCause::kNone) return;
  attempt.stop_cause = StopCause::kStartFailed;
  attempt.cause = text;
  draft.Put(attempt);
}

constexpr std::size_t kOpeningsKept = 100;  // of an older one the oldest that is kept is asked

// Seconds since 1970, where the upper half of a session's number can hold them.
std::uint64_t EpochAt(WallTime wall) {
  const std::int64_t seconds = ToMs(wall) / 1000;
  const bool fits = seconds > 0 && seconds <= std::numeric_limits<std::uint32_t>::max();
  return fits ? static_cast<std::uint64_t>(seconds) : 0;
}

// What is left of attempts that the store never knew: their GPUs are held for them.
void RecallUnknown(State& state) {
  for (const auto& [gpu, record] : state.quarantine) {
    if (!state.jobs.contains(record.key.job)) continue;
    if (!IsFenced(state, record.node) && IsUnknownHere(state, record.key))
      state.live.unknown[record.key].insert(record.node);
  }
}

// A store of an earlier time does not know what was cancelled or done since. What runs goes on, as
// its node says; nothing is started again before somebody who knows has released it.
void HoldWhatIsNotDone(Draft& draft) {
  std::vector<JobRecord> open;
  for (const auto& [id, job] : draft.state().jobs) {
    if (job.phase != JobPhase::kDone) open.push_back(job);
  }
  for (JobRecord& job : open) {
    if (job.phase == JobPhase::kActive) {
      const AttemptRecord& newest = draft.state().attempts.at(Key{job.id, Attempt{job.attempts}});
      // As a requeue, not as a failure: it costs no retry, and `retry: 0` ends nothing.
      if (newest.phase == AttemptPhase::kPreparing) {
        job.went_back = true;
        draft.Put(job);
      }
    }
    if (job.held) continue;
    job.held = true;
    job.held_by = kByRestore;
    draft.Event("job.held", Subject(job.id),
                "by restore: it may have been cancelled or done since");
    draft.Put(job);
  }
}

// A job whose rows grow beyond the store's limit must not hold up the others: it ends, without what
// made it large.
void EndUnstorable(Draft& draft, const event::Unstorable& event) {
  const auto found = draft.state().jobs.find(event.job);
  if (found == draft.state().jobs.end() || found->second.phase == JobPhase::kDone) return;
  JobRecord job = found->second;
  job.findings.clear();
  if (job.cancelled_by.empty()) {
    job.cancelled_by = "controller";
    job.cancelled_at = draft.wall();
    draft.Event("job.cancelled", Subject(event.job), "by controller: " + event.why);
  }
  draft.Put(job);
  draft.Touch(event.job);
}

// `launch plan`, and what the planner answers to it.
bool IsOfPlanQuery(const State& state, const Event& event) {
  const auto* planned = std::get_if<event::Planned>(&event);
  return std::holds_alternative<event::PlanQuery>(event) ||
         (planned != nullptr && state.live.queries.contains(planned->ticket));
}

}  // namespace

bool IsRead(const Event& event) {
  const auto* quarantine = std::get_if<event::Quarantine>(&event);
  if (quarantine != nullptr) return quarantine->action == QuarantineAction::kList;
  return std::holds_alternative<event::ListJobs>(event) ||
         std::holds_alternative<event::GetJob>(event) ||
         std::holds_alternative<event::ListNodes>(event) ||
         std::holds_alternative<event::ListTokens>(event);
}

Decision Decide(State& state, const Event& event, const Now& now) {
  LetPlansGo(state, now.boot);
  Draft draft(state, now);
  const bool read = IsRead(event) || IsOfPlanQuery(state, event);
  if (!read && std::exchange(state.live.look_again, false)) {
    RearmTimeLimits(state, now);
    for (const JobId job : state.active) draft.Touch(job);
    draft.TouchQueue();
  }
  std::visit(Overloaded{
                 [&](const event::NodeAttached& e) { OnNode(draft, e); },
                 [&](const event::NodeSaid& e) { OnNode(draft, e); },
                 [&](const event::NodeBeat& e) { OnNode(draft, e); },
                 [&](const event::NodeHeard& e) { OnNode(draft, e); },
                 [&](const event::NodeDetached& e) { OnNode(draft, e); },
                 [&](const event::SecretUnreadable& e) { OnNode(draft, e); },
                 [&](const event::Planned& e) { OnPlanned(draft, e); },
                 [&](const event::Diagnosed& e) { OnDiagnosed(draft, e); },
                 [&](const event::Tick&) { OnTick(draft); },
                 [&](const event::StoreSpace& e) { draft.live().store_low = e.low; },
                 [&](const event::Unstorable& e) { EndUnstorable(draft, e); },
                 [&](const auto& e) { OnUser(draft, e); },
             },
             event);
  // Nothing else is drawn with a read: its answer must not wait for a store that is full.
  if (read) {
    draft.decision().read = true;
    return std::move(draft).Take();
  }
  Settle(draft);
  CompleteAnswers(draft);
  PruneJobs(draft);
  return std::move(draft).Take();
}

void Undo(State& state, const Decision& decision) {
  for (auto step = decision.undo.rbegin(); step != decision.undo.rend(); ++step) {
    if (step->old) {
      Apply(state, Put{*step->old});
    } else {
      Apply(state, Delete{step->touched});
    }
  }
  // Live facts that stand for what was not done after all. What was to be said is said again, what
  // was to follow is drawn again; both are idempotent, so more than necessary is harmless.
  Live& live = state.live;
  for (const auto& [key, attempt] : decision.attempts) live.attempts[key] = attempt;
  for (const auto& [key, nodes] : decision.forgotten) {
    live.unknown[key].insert(nodes.begin(), nodes.end());
  }
  for (const auto& [job, was] : decision.cancelled) {
    if (was) {
      live.cancelled.insert(job);
    } else {
      live.cancelled.erase(job);
    }
  }
  for (const auto& [node, gpus] : decision.freed) {
    const auto found = live.nodes.find(node);
    if (found == live.nodes.end()) continue;
    for (const auto& [gpu, holders] : gpus) found->second.may_hold[gpu] = holders;
  }
  // A new limit that was not stored: the old one is armed again, of this job only, because after a
  // reboot only the wall clock says how long it ran.
  for (const auto& step : decision.undo) {
    if (const auto* spec = std::get_if<SpecRecord>(&step.touched)) live.time_limits.erase(spec->id);
  }
  for (const Effect& effect : decision.effects) {
    if (const auto* wanted = std::get_if<effect::PlanWanted>(&effect); wanted && wanted->placed) {
      live.holds.erase(wanted->placed->key.job);
    } else if (const auto* send = std::get_if<effect::Send>(&effect)) {
      for (const auto& [node, live_node] : live.nodes) {
        if (live_node.session != send->session) continue;
        for (auto& [key, attempt] : live.attempts) attempt.asked.erase(node);
      }
    }
  }
  // A verdict that was lost with the batch is asked for again.
  for (auto& [key, attempt] : live.attempts) {
    attempt.diagnosis_asked = attempt.diagnosed = false;
    attempt.hang = HangWatch{};
  }
  live.look_again = true;
}

Result<Decision> Start(State& state, const PlanDecoder& decode, const std::string& new_cluster_id,
                       const Now& now, bool went_back, std::optional<std::uint64_t> opened_at) {
  for (const JobId job : state.active) {
    const Key key{job, Attempt{state.jobs.at(job).attempts}};
    const auto attempt = state.attempts.find(key);
    if (attempt == state.attempts.end()) {
      return Fail(ErrorCode::kDataLoss,
                  fmt::format("job {} is active but its attempt {} is not in the store", job.value,
                              ToString(key)),
                  "run `launch server check`");
    }
  }
  // What nodes are told comes from the plans of the attempts.
  std::map<Key, std::string> unreadable;
  for (const auto& [key, attempt] : state.attempts) {
    if (attempt.phase == AttemptPhase::kEnded) {
      state.plan_chunks.erase(key);
      continue;
    }
    if (Result<StoredPlan> plan = ReadPlan(state, decode, attempt); plan) {
      state.plans[key] = std::make_shared<const StoredPlan>(std::move(*plan));
    } else {
      unreadable[key] = plan.error().message;
    }
  }

  state.live.since = now.boot;
  RecallUnknown(state);
  state.live.awaits_nodes = went_back || state.cluster.incarnation > 1;
  Draft draft(state, now);
  ClusterRecord cluster = state.cluster;
  if (cluster.id.empty()) cluster.id = new_cluster_id;
  // Of two histories that begin with one backup, the later one has the higher epoch.
  cluster.epoch = std::max(cluster.epoch + 1, EpochAt(now.wall));
  if (opened_at) cluster.openings[cluster.epoch] = *opened_at;
  while (cluster.openings.size() > kOpeningsKept) cluster.openings.erase(cluster.openings.begin());
  if (went_back) {
    ++cluster.incarnation;
    cluster.next_job += kJobsSkipped;
    draft.Event("cluster.restored", "cluster",
                fmt::format("the store may lack commits that nodes and users saw; incarnation {}, "
                            "the next job is {}",
                            cluster.incarnation, cluster.next_job));
    HoldWhatIsNotDone(draft);
  }
  draft.Put(cluster);
  draft.Event("controller.started", "cluster", fmt::format("epoch {}", cluster.epoch));
  for (const auto& [key, why] : unreadable) GiveUpPlan(draft, key, why);
  RebaseTimeLimits(draft);
  RearmTimeLimits(state, now);
  for (const JobId job : state.active) draft.Touch(job);
  for (const JobId job : state.queue) {
    const Millis left = BackoffLeft(state.jobs.at(job), now.wall);
    if (left > Millis{0}) state.live.not_before[job] = now.boot + left;
  }
  draft.TouchQueue();
  Settle(draft);
  return std::move(draft).Take();
}

}  // namespace launch::controller
