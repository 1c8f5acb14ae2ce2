// The end of an attempt: how it ended, whether the job is tried again, and the end of a job.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>
#include <utility>

#include "controller/core/attempt_facts.h"
#include "controller/core/draft.h"
#include "controller/core/fold_findings.h"
#include "controller/core/gpu_watch.h"
#include "controller/core/kept_place.h"
#include "controller/core/memory_watch.h"
#include "controller/core/recovery.h"
#include "controller/core/reputation.h"
#include "controller/core/stop_verdict.h"
#include "controller/core/views.h"
#include "diagnosis/rank_end.h"

namespace launch::controller {
namespace {

// The first to fail by itself: what we killed is a consequence, not a cause. Times of different
// nodes are compared on our clock; where one is not known, the first that arrived stands, unless a
// node that was taken for lost came back with the proof that its rank succeeded.
const RankRecord* FirstFailureOf(const State& state, const AttemptRecord& attempt) {
  const auto ranks = state.ranks.find(attempt.key);
  if (ranks == state.ranks.end() || !attempt.first_failed_rank) return nullptr;
  const auto arrived = ranks->second.find(*attempt.first_failed_rank);
  if (arrived == ranks->second.end() || !arrived->second.exit) return nullptr;
  const RankRecord* first = Succeeded(*arrived->second.exit) ? nullptr : &arrived->second;
  std::optional<BootTime> earliest = first ? OurTimeOf(state, *first) : std::nullopt;
  for (const auto& [rank, record] : ranks->second) {
    if (!record.exit || Succeeded(*record.exit) || !record.exit->our_signals.empty()) continue;
    const std::optional<BootTime> at = OurTimeOf(state, record);
    if (first != nullptr && !(earliest && at && *at < *earliest)) continue;
    first = &record;
    earliest = at;
  }
  return first;
}

// Stages of a start in which nothing of the user's has a say: they fail for what the node is short
// of (processes, descriptors, memory, room on the agent's disk) or for what befell its agent. What
// is not here may be the job's own doing, and is tried again only where `retry` asks for it:
// interpreter, container, chdir and exec name something of the user's; ids, limits, affinity and
// stdio are what was asked for; start is the end of another rank of the node.
constexpr std::array kStagesOfNode = std::to_array<std::string_view>({
    "agent_restarted",  // while the ranks were being started
    "cgroup",           // the rank's control group could not be entered
    "control",          // the shim's FIFO, signals or timer
    "files",            // the plan's files for this attempt, as the list of hosts, in its directory
    "fork",             // of the rank
    "lease",            // not written, or over before the fork
    "no_new_privs",
    "record",  // no record of the start or the end could be kept, or the shim never got so far
    "setsid",
    "signals",  // set back to their defaults
    "spawn",    // of the shim, and the files of the output
    "spec",     // what the shim is to start did not reach it
});

bool IsOfNode(const FailedToStart& failed) {
  return std::ranges::find(kStagesOfNode, failed.stage) != kStagesOfNode.end();
}

bool StartsPerNode(const State& state, const Key& key) {
  const auto plan = state.plans.find(key);
  return plan != state.plans.end() && plan->second->plan.start == StartKind::kPerNode;
}

// Where run starts once per node, what ended is a launcher or a shell; how its process ended, it
// tells by its own exit code (bash: 128 + the signal).
ExitCause CauseOf(const RankRecord& rank, bool per_node) {
  const ExitCause& cause = rank.exit->cause;
  const auto* exited = std::get_if<Exited>(&cause);
  if (!per_node || exited == nullptr) return cause;
  const RankEnd end = DecodeExitCode(exited->code);
  if (exited->code <= 128 || !end.signal || *end.signal != exited->code - 128) return cause;
  return Signalled{*end.signal, false};
}

// The launcher's own report of its ranks stands in the log, so the verdict knows it.
Rank FailedRankOf(const AttemptRecord& attempt, const RankRecord& rank, bool per_node) {
  const bool told =
      per_node && attempt.verdict && attempt.verdict->rank && attempt.verdict->node == rank.node;
  return told ? *attempt.verdict->rank : rank.rank;
}

// PyTorch raises an exception where the GPU's memory is short, and a program ends by it as by any.
bool RanOutOfGpuMemory(const AttemptRecord& attempt) {
  return attempt.verdict && attempt.verdict->confidence != Confidence::kSymptom &&
         attempt.verdict->label.starts_with("cuda_oom");
}

void JudgeRank(const State& state, const AttemptRecord& attempt, const RankRecord& rank,
               Ending& ending) {
  const bool per_node = StartsPerNode(state, attempt.key);
  const ExitCause cause = CauseOf(rank, per_node);
  ending.first_failed_rank = FailedRankOf(attempt, rank, per_node);
  ending.first_failed_node = rank.node;
  ending.exit_code = ShellCode(cause);
  ending.text =
      fmt::format("rank {} on {}: {}", *ending.first_failed_rank, rank.node.value, Describe(cause));
  if (EndedByLease(*rank.exit)) ending.text += kLeaseWords;
  ending.outcome = "failed";
  ending.state = JobState::kFailed;
  ending.blame = Blame::kUserCode;
  if (std::holds_alternative<OutOfMemory>(cause)) {
    ending.outcome = "out_of_memory";
    ending.state = JobState::kOutOfMemory;
    ending.sub_reason = "HOST";
    ending.blame = Blame::kOutOfMemory;
  } else if (EndedByLease(*rank.exit) || std::holds_alternative<UnknownEnd>(cause)) {
    ending.outcome = "node_fail";
    ending.state = JobState::kNodeFail;
    ending.blame = Blame::kInfrastructure;
  } else if (const auto* failed = std::get_if<FailedToStart>(&cause)) {
    ending.sub_reason = "START";
    if (IsOfNode(*failed)) ending.blame = Blame::kInfrastructure;
  } else if (const auto* signalled = std::get_if<Signalled>(&cause);
             signalled == nullptr || signalled->signal != SIGKILL) {
    ending.sub_reason = "USER_CODE";  // SIGKILL: nobody knows who sent it
  }
  if (ending.sub_reason == "USER_CODE" && RanOutOfGpuMemory(attempt)) {
    ending.outcome = "out_of_memory";
    ending.state = JobState::kOutOfMemory;
    ending.sub_reason = "GPU";
  }
}

// A GPU of the attempt on this node that is broken or gone by now, with the reason; or empty.
std::string GpuFault(const State& state, const Key& key, const NodeId& node) {
  const AllocRecord* alloc = FindAlloc(state, key, node);
  const NodeInventory* inventory = InventoryOf(state, node);
  if (alloc == nullptr || inventory == nullptr) return {};
  for (const GpuUuid& gpu : alloc->gpus) {
    if (std::string why = WhyGpuFails(*inventory, gpu); !why.empty()) return why;
  }
  return {};
}

// Why the next attempt should be elsewhere than on the node that failed first; empty: no reason.
std::string WhyAvoid(const State& state, const Key& key, const Ending& ending,
                     const Recovery& recovery) {
  if (!ending.first_failed_node) return {};
  if (recovery.action == Action::kElsewhere) {
    const std::optional<Verdict>& verdict = state.attempts.at(key).verdict;
    return verdict ? verdict->label : ending.text;
  }
  return GpuFault(state, key, *ending.first_failed_node);
}

void Avoid(Draft& draft, const Key& key, const Ending& ending, const Recovery& recovery,
           JobRecord& job) {
  const std::string why = WhyAvoid(draft.state(), key, ending, recovery);
  if (why.empty()) return;
  const std::optional<Verdict>& verdict = draft.state().attempts.at(key).verdict;
  const bool told = recovery.action == Action::kElsewhere && verdict && verdict->node;
  const NodeId& node = told ? *verdict->node : *ending.first_failed_node;
  job.excluded_nodes[node.value] = why;
  if (why != ending.text) job.requeue_cause += fmt::format(" ({})", why);
  draft.Event("job.avoids_node", Subject(job.id), fmt::format("{}: {}", node.value, why));
}

void Change(Draft& draft, const Recovery& recovery, JobRecord& job) {
  if (!recovery.change) return;
  job.change = *recovery.change;
  job.change_text = recovery.says;
  job.requeue_cause += fmt::format("; changed: {}", recovery.says);
  draft.Event("job.plan_changed", Subject(job.id), recovery.says);
}

void Requeue(Draft& draft, const Key& key, JobRecord job, const Ending& ending,
             const Recovery& recovery) {
  CountRetry(recovery, job);
  job.phase = JobPhase::kQueued;
  job.requeue_cause = ending.text;
  job.change_text.clear();
  Change(draft, recovery, job);
  Avoid(draft, key, ending, recovery, job);
  Millis backoff = draft.state().specs.at(job.id).spec.retry.backoff;
  const bool from_outside =
      ending.blame == Blame::kInfrastructure || recovery.action == Action::kResume;
  if (backoff == Millis{0} && from_outside) {
    const int used = RetriesUsed(job, Budget::kInfrastructure);
    backoff = Millis{2000} * (1 << std::clamp(used - 1, 0, 5));  // 2 s, 4 s ... 64 s
  }
  backoff = std::max(backoff, recovery.wait);
  job.not_before = WallTime{};
  job.backoff = backoff;
  if (backoff > Millis{0}) {
    job.not_before = draft.wall() + backoff;
    draft.live().not_before[job.id] = draft.now() + backoff;
  }
  const bool moves = recovery.action == Action::kElsewhere;
  if (!moves && StaysInPlace(draft, job, key, backoff)) {
    KeepStaging(draft, key);
    draft.Event("job.restarts", Subject(job.id),
                fmt::format("in place on {}: {}", Names(draft.state().attempts.at(key).nodes),
                            job.requeue_cause));
  } else {
    job.keeps = 0;
    draft.Event("job.requeued", Subject(job.id), job.requeue_cause);
  }
  draft.Put(job);
  draft.TouchQueue();
}

// Of a job that may not be tried again: what the node has against the start, as any check before
// it. Nothing where the node gave no such reason.
std::optional<Ending> RefusedEnding(const JobRecord& job, const LiveAttempt& live,
                                    const Ending& ending) {
  for (const Finding& finding : job.findings) {
    const bool refused = finding.code == live.refused_for && finding.node &&
                         finding.node == ending.first_failed_node;
    if (!refused) continue;
    Ending last = ending;
    last.state = JobState::kFailed;
    last.sub_reason = "PREFLIGHT";
    last.text = fmt::format("{} on {}: {}", finding.code, finding.node->value, finding.says);
    last.blame = Blame::kPlan;
    return last;
  }
  return std::nullopt;
}

// Not a retry: it counts for no limit and waits for no backoff.
void QueueAgain(Draft& draft, JobRecord job, std::string cause) {
  job.phase = JobPhase::kQueued;
  job.keeps = 0;
  job.requeue_cause = std::move(cause);
  job.not_before = WallTime{};
  draft.Event("job.requeued", Subject(job.id), job.requeue_cause);
  draft.Put(job);
  draft.TouchQueue();
}

}  // namespace

std::optional<BootTime> OurTimeOf(const State& state, const RankRecord& rank) {
  const ExitReport& report = *rank.exit;
  const auto node = state.live.nodes.find(rank.node);
  if (ToMs(report.ended) == 0 || node == state.live.nodes.end() ||
      node->second.boot_id != report.boot_id || !node->second.clock_offset) {
    return std::nullopt;
  }
  return report.ended + *node->second.clock_offset;
}

Ending JudgeAttempt(const State& state, const AttemptRecord& attempt) {
  Ending ending;
  const RankRecord* first = FirstFailureOf(state, attempt);
  if (first != nullptr) JudgeRank(state, attempt, *first, ending);
  switch (attempt.stop_cause) {
    case StopCause::kRankFailed:
    case StopCause::kNodeLost:
      if (first != nullptr) break;
      ending.outcome = "node_fail";
      ending.state = JobState::kNodeFail;
      ending.text = attempt.cause;
      ending.blame = Blame::kInfrastructure;
      ending.first_failed_node = attempt.first_failed_node;
      break;
    case StopCause::kTimeLimit:
      ending.outcome = "timeout";
      ending.state = JobState::kTimeout;
      ending.sub_reason.clear();
      ending.text = attempt.cause;
      ending.blame = Blame::kNobody;
      break;
    case StopCause::kHang:
      ending.outcome = "hang";
      ending.state = JobState::kFailed;
      ending.sub_reason = "HANG";
      ending.text = attempt.cause;
      ending.blame = Blame::kUserCode;  // the verdict says more
      ending.first_failed_node = attempt.first_failed_node;
      if (attempt.verdict) ending.first_failed_rank = attempt.verdict->rank;
      break;
    case StopCause::kStartFailed:
      ending.outcome = "start_failed";
      ending.state = JobState::kNodeFail;
      ending.sub_reason = "START";
      ending.text = attempt.cause;
      ending.blame = Blame::kInfrastructure;
      ending.first_failed_node = attempt.first_failed_node;
      break;
    case StopCause::kNone:
    case StopCause::kCancelled:
    case StopCause::kPreempted:
    case StopCause::kStale:
    case StopCause::kLease:
      ending.outcome = attempt.stop_cause == StopCause::kPreempted ? "preempted" : "cancelled";
      ending.state =
          attempt.stop_cause == StopCause::kPreempted ? JobState::kPreempted : JobState::kCancelled;
      ending.sub_reason.clear();
      ending.text = attempt.cause;
      ending.blame = Blame::kNobody;
      break;
  }
  return ending;
}

void EndAttempt(Draft& draft, const Key& key, const Ending& ending) {
  AttemptRecord attempt = draft.state().attempts.at(key);
  attempt.progress = ProgressOf(draft.state(), attempt);
  attempt.peak_gpu_bytes = PeakOfGpus(draft.state(), key);
  attempt.phase = AttemptPhase::kEnded;
  attempt.outcome = ending.outcome;
  attempt.cause = ending.text;
  attempt.ended = draft.wall();
  attempt.ran = RunTime(attempt, draft.live(), draft.clock());
  if (ending.state == JobState::kSucceeded) attempt.verdict.reset();  // it stood still, and went on
  if (!attempt.verdict && ending.state != JobState::kSucceeded) {
    attempt.verdict = VerdictOfStop(draft.state().specs.at(key.job).spec, attempt);
  }
  if (ending.first_failed_rank) attempt.first_failed_rank = ending.first_failed_rank;
  if (ending.first_failed_node) attempt.first_failed_node = ending.first_failed_node;
  draft.live().attempts[key].deadline.reset();
  draft.live().ended[key] = draft.now();
  draft.live().time_limits.erase(key.job);
  draft.Event("attempt.ended", Subject(key),
              ending.outcome + (ending.text.empty() ? "" : ": " + ending.text));
  draft.Put(attempt);

  const JobRecord job = draft.state().jobs.at(key.job);
  if (!job.cancelled_by.empty() && ending.state != JobState::kSucceeded) {
    Ending cancelled = ending;
    cancelled.state = JobState::kCancelled;
    cancelled.sub_reason.clear();
    cancelled.text = "cancelled by " + job.cancelled_by;
    EndJob(draft, job, cancelled);
    return;
  }
  if (IsRequeued(job) && ending.state != JobState::kSucceeded) {
    JobRecord again = job;
    again.requeued_by.clear();
    again.went_back = false;
    QueueAgain(draft, std::move(again), WhyRequeued(job));
    return;
  }
  const LiveAttempt& live = draft.live().attempts[key];
  const bool start_failed = ending.outcome == "start_failed";
  const bool once = draft.state().specs.at(key.job).spec.retry.max == 0;
  if (start_failed && live.turned_away && !once) {
    QueueAgain(draft, job, ending.text);
    return;
  }
  // `retry: 0` says that one try is enough, also of this kind.
  if (const auto refused = start_failed && once ? RefusedEnding(job, live, ending) : std::nullopt) {
    EndJob(draft, job, *refused);
    return;
  }
  NoteNodeFault(draft, attempt, ending);
  const Recovery recovery = RecoveryAfter(draft.state(), attempt, ending);
  if (recovery.action == Action::kStop) {
    Ending last = ending;
    if (!recovery.says.empty()) last.text += "; " + recovery.says;
    EndJob(draft, job, last);
    return;
  }
  Requeue(draft, key, job, ending, recovery);
}

void EndJob(Draft& draft, JobRecord job, const Ending& ending) {
  job.phase = JobPhase::kDone;
  job.keeps = 0;
  job.requeued_by.clear();
  job.went_back = false;
  job.held = false;
  job.held_by.clear();
  job.outcome = ending.state;
  job.sub_reason = ending.sub_reason;
  job.outcome_text = ending.text;
  job.exit_code = ending.exit_code;
  job.ended = draft.wall();
  if (!ending.findings.empty()) job.findings = FoldFindings(ending.findings);
  draft.Event(
      "job.done", Subject(job.id),
      std::string(ToString(ending.state)) + (ending.text.empty() ? "" : ": " + ending.text));
  draft.Put(job);
  std::vector<std::string> secrets;
  for (auto secret = draft.state().secrets.lower_bound({job.id, ""});
       secret != draft.state().secrets.end() && secret->first.first == job.id; ++secret) {
    secrets.push_back(secret->first.second);
  }
  for (const std::string& name : secrets) draft.EraseSecret(job.id, name);
  Live& live = draft.live();
  live.holds.erase(job.id);
  live.reasons.erase(job.id);
  live.not_before.erase(job.id);
  live.staged.erase(job.id);
  live.ties.erase(job.id);
  for (auto entry = draft.state().allocs.lower_bound(Key{job.id, Attempt{0}});
       entry != draft.state().allocs.end() && entry->first.job == job.id; ++entry) {
    for (const auto& [node, alloc] : entry->second) {
      if (IsReleased(alloc)) draft.Send(node, to_node::Forget{entry->first});
    }
  }
  draft.TouchQueue();
}

}  // namespace launch::controller
