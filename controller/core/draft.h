// One decision while it is made: every change goes through here, so nothing is changed unrecorded.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/decide.h"
#include "controller/core/state.h"
#include "preflight/report.h"

namespace launch::controller {

// Lives for one Decide. Stored entities change by Put and Erase only (which record, keep the value
// before, and Apply at once); live facts by live().
class Draft {
 public:
  Draft(State& state, const Now& now) : state_(state), now_(now) {}
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const State& state() const { return state_; }
  Live& live() { return state_.live; }
  BootTime now() const { return now_.boot; }
  WallTime wall() const { return now_.wall; }
  const Now& clock() const { return now_; }

  void Put(Entity entity);
  // Quarantines the GPU, as the attached agent reports. `holder`: the attempt that holds it, Key{}
  // where nobody can tell.
  void HoldGpu(const NodeId& node, const GpuUuid& gpu, std::string why, const Key& holder);
  void EraseQuarantine(const GpuUuid& gpu);
  void EraseJob(JobId job);            // with all that belongs to it
  void EraseNode(const NodeId& node);  // and its inventory; nothing of it may be live or held
  void EndLive(const Key& key);        // of an attempt that is over everywhere
  // For changes to an attempt's live facts that Undo takes back with the decision.
  LiveAttempt& ChangeLive(const Key& key);
  void NoteCancelled(JobId job, bool by_a_person);
  void EraseSecret(JobId job, const std::string& name);
  // Erases the chunks of a plan from number `first` on, which a crash between the parts of an
  // earlier, longer plan left behind.
  void EraseChunks(const Key& attempt, std::uint32_t first);
  void KeepPlan(const Key& key, StoredPlan plan);
  LineReadings& readings() { return readings_; }
  void KeepLine(JobId job, Result<LineDemand> line);  // of its spec as stored now

  // One line of the audit trail; kinds are listed in docs/events.md.
  void Event(std::string kind, std::string subject, std::string text);
  void Reply(RequestId request, Result<ReplyBody> body, std::vector<Finding> findings = {});
  // Sends to the node's present session. Without one nothing is sent: ask.cc repeats what must
  // arrive.
  void Send(const NodeId& node, ToNode message);
  void Close(SessionId session, std::string why);
  void Want(effect::PlanWanted wanted);
  void ReadPlans(effect::ReadPlans wanted);
  void Diagnose(effect::DiagnosisWanted wanted);

  // Marks the job: consequences for it are drawn before the decision ends.
  void Touch(JobId job);
  void TouchQueue() { queue_touched_ = true; }
  std::optional<JobId> NextTouched();
  bool TakeQueueTouched() { return std::exchange(queue_touched_, false); }
  const std::set<JobId>& seen() const { return seen_; }

  Decision Take() && { return std::move(decision_); }
  Decision& decision() { return decision_; }

 private:
  void Erase(const Entity& entity);  // as it is now

  State& state_;
  const Now now_;
  Decision decision_;
  LineReadings readings_;
  std::set<JobId> touched_;
  std::set<JobId> seen_;  // all that were ever touched
  bool queue_touched_ = false;
};

// ---- the folder's inner seams, in the order in which an event passes them ----

void OnUser(Draft& draft, const event::Submit& event);  // decide_user.cc
void OnUser(Draft& draft, const event::PlanQuery& event);
void OnUser(Draft& draft, const event::Cancel& event);
void OnUser(Draft& draft, const event::NoteProbe& event);
void OnUser(Draft& draft, const event::Change& event);  // decide_change.cc
void OnUser(Draft& draft, const event::ListJobs& event);
void OnUser(Draft& draft, const event::GetJob& event);
void OnUser(Draft& draft, const event::ListNodes& event);
void OnUser(Draft& draft, const event::Drain& event);  // decide_operator.cc
void OnUser(Draft& draft, const event::ForgetNode& event);
void OnUser(Draft& draft, const event::FenceNode& event);
void OnUser(Draft& draft, const event::Quarantine& event);
void OnUser(Draft& draft, const event::OpenExec& event);     // decide_exec.cc
void OnUser(Draft& draft, const event::Denied& event);       // node_claims.cc
void OnUser(Draft& draft, const event::CreateToken& event);  // decide_token.cc
void OnUser(Draft& draft, const event::RevokeMember& event);
void OnUser(Draft& draft, const event::ListTokens& event);
void OnUser(Draft& draft, const event::UseToken& event);
void OnUser(Draft& draft, const event::Renew& event);
void OnNode(Draft& draft, const event::NodeAttached& event);  // reconcile.cc
void OnNode(Draft& draft, const event::NodeSaid& event);      // decide_node.cc
void OnNode(Draft& draft, const event::NodeBeat& event);
void OnNode(Draft& draft, const event::NodeHeard& event);
void OnNode(Draft& draft, const event::NodeDetached& event);
void OnNode(Draft& draft, const event::SecretUnreadable& event);
void OnPlanned(Draft& draft, const event::Planned& event);      // decide_plan.cc
void OnDiagnosed(Draft& draft, const event::Diagnosed& event);  // diagnosing.cc
void OnTick(Draft& draft);                                      // deadlines.cc

// The rank's record; a new one where the allocation has none yet.
RankRecord RankOf(const State& state, const AllocRecord& alloc, Rank rank);
// A rank ended, as its agent says (or found at attach): recorded once, acknowledged always.
void NoteExit(Draft& draft, const NodeId& node, const ExitReport& report);
// The highest attempt of a job that a node has seen: kept for a job that waits or that the node has
// a part of, and only if it is within reason.
void NoteFloor(Draft& draft, const NodeId& node, const Key& floor);
// Makes the next attempt of a job that is in the store have a higher number than `floor`, unless
// that is out of reason (kMaxFloorJump).
void RaiseFloor(Draft& draft, const NodeId& node, const Key& floor);
// Records an agent's notice as an event, of its own kind if agents may use that; at most
// kMaxNoticesPerMinute of one session.
void NoteNotice(Draft& draft, const NodeId& node, const from_node::Notice& said);
// Records that a node spoke of GPUs that are not its own.
void NoteForeignGpus(Draft& draft, const NodeId& node, const std::vector<GpuUuid>& gpus);
// Ranks of the allocation whose end nobody can report any more are unknown(why).
void LoseRanks(Draft& draft, const AllocRecord& alloc, const std::string& why);
// A proof of death other than the node's own stands for its word: nothing of the allocation runs.
void TakeAsDead(Draft& draft, const NodeId& node, const Key& key, const std::string& why);
// Gives up what silent nodes have of jobs whose leases are over; leases.cc.
void EndLeases(Draft& draft);
std::optional<BootTime> NextLeaseEnd(const State& state);
// Records that nothing of the allocation is left on the node but the GPUs that are `said` to be
// held.
void NoteReleased(Draft& draft, const NodeId& node, const Key& key,
                  const std::vector<std::pair<GpuUuid, std::string>>& said);
// Records that the node answers or has fallen silent; only placement and views depend on it.
void MarkSilent(Draft& draft, const NodeId& node, LiveNode& live, bool silent, std::string why);
// Ends the node's session: what may still come on a half-open stream is not its word any more. The
// agent is `told` why, people read why it is `silent`.
void CutOff(Draft& draft, const NodeId& node, const char* told, const char* silent);
// Takes over a node's inventory; records it when it differs from the known one.
void NoteInventory(Draft& draft, const NodeId& node, NodeInventory inventory);

// How long before the time limit the ranks get their signal, and the stop begins.
Millis SignalLead(const JobSpec& spec);
// Sets the time limit of a running attempt: what is left of it, never more than the whole.
void ArmTimeLimit(Live& live, const State& state, JobId job, const Now& now);  // deadlines.cc

void SettleJob(Draft& draft, JobId job);  // decide_attempt.cc
// Why the cluster takes `more` jobs of the user on no more; nothing when it does.
std::optional<Error> WhyFull(const State& state, const UserName& user, std::size_t more);
void PruneJobs(Draft& draft);            // prune.cc
void SettleQueue(Draft& draft);          // decide_queue.cc
void AskNodes(Draft& draft, JobId job);  // ask.cc

// How an attempt ended, before the retry policy speaks.
enum class Blame { kNobody, kUserCode, kInfrastructure, kOutOfMemory, kPlan };
struct Ending {
  std::string outcome;                 // of the attempt: success | failed | cancelled | timeout ...
  JobState state = JobState::kFailed;  // of the job, unless it is tried again
  std::string sub_reason;
  std::string text;  // one sentence
  std::optional<int> exit_code;
  Blame blame = Blame::kNobody;
  std::vector<Finding> findings;
  std::optional<Rank> first_failed_rank;
  std::optional<NodeId> first_failed_node;
};
// Ends the attempt, then the job, or queues it again.
void EndAttempt(Draft& draft, const Key& key, const Ending& ending);  // decide_retry.cc
// Ends a job; forgets what its nodes need not keep.
void EndJob(Draft& draft, JobRecord job, const Ending& ending);
// When a rank ended, in our boot time; absent while the clock of its node is not known.
std::optional<BootTime> OurTimeOf(const State& state, const RankRecord& rank);
// How an attempt that is stopping will have ended, from its exits and its cause.
Ending JudgeAttempt(const State& state, const AttemptRecord& attempt);

// ---- diagnosing.cc ----
// False while the logs of an attempt whose ranks are gone are being read: it ends when its verdict
// is there, or when that takes too long.
bool IsDiagnosed(Draft& draft, const AttemptRecord& attempt, const Ending& ending);

// "hang (likely), rank 1 on gpu01: ...": for events.
std::string InWords(const Verdict& verdict);

// ---- staging.cc ----
// Addresses at which rank 0 could be the master, best first, for the other nodes to probe. Loopback
// only where all nodes share one kernel and one network namespace.
std::vector<std::string> MasterCandidates(const State& state, const AttemptRecord& attempt);
// All nodes are ready: the launching record, or why it must not start.
struct LaunchDecision {
  AttemptRecord attempt;
  std::vector<AllocRecord> allocs;
  std::vector<Finding> findings;  // errors among them forbid the start unless the job is forced
  std::vector<Check> checks;      // all that was looked at on its nodes
  bool setup_failed = false;
  std::vector<std::string> skipped_checkpoints;  // one sentence each
  WallTime checkpoint_written{};                 // the one that it resumes from
};
LaunchDecision DecideLaunch(const State& state, const AttemptRecord& attempt);

// ---- retry_progress.cc ----
// Counts the attempts in a row that left no newer checkpoint behind; the staging of this start has
// looked for one.
void CountProgress(const State& state, const LaunchDecision& decision, JobRecord& job);
// How the job ends when there were too many such attempts; absent: there were not.
std::optional<Ending> WhyStuck(const State& state, const AttemptRecord& attempt,
                               const JobRecord& job);

// ---- network_round.cc ----
// A full preflight of several nodes ends with a test that all of them take part in at once.
bool TestsNetwork(const State& state, const AttemptRecord& attempt);
// What one node is asked for the network test; the environment is the one that Go would give now.
to_node::Stage MakeNetworkStage(const State& state, const AttemptRecord& attempt,
                                const AllocRecord& alloc);
// Drops a test, running or finished; the next one starts over with all nodes.
void ForgetNetworkTest(LiveAttempt& live);
PreflightReport JudgeNetworkRound(const State& state, const AttemptRecord& attempt);
// What the nodes, by place, said of each other; empty while one of them has not answered.
std::vector<NetworkFacts> FactsByPlace(const LiveAttempt& live, const std::vector<NodeId>& nodes);
// Stores with the nodes what a test measured between them, for later plans. `subject` is that of
// the event.
void NoteNetwork(Draft& draft, const std::string& subject, const std::vector<NodeId>& nodes,
                 const std::vector<NetworkFacts>& facts);

// The message Go, which starts the ranks of one node.
to_node::Go MakeGo(const State& state, const AttemptRecord& attempt, const AllocRecord& alloc);

std::string Subject(JobId job);
std::string Subject(const NodeId& node);
std::string Subject(const Key& key);

// Why a rank ended whose node did not hear from the controller for the time of requeue_after.
inline constexpr const char* kLeaseWords = ", its node was cut off for longer than requeue_after";

// Limits of the protocol between controller and agents.
inline constexpr Millis kAcceptLimit{30'000};
inline constexpr Millis kStartLimit{60'000};
inline constexpr Millis kStagingMargin{60'000};  // on top of the job's own limit for `setup`
inline constexpr Millis kNetworkTestLimit{180'000};
inline constexpr Millis kDiagnosisLimit{15'000};
inline constexpr Millis kLogsAgain{1'000};  // until the node that has them is attached
inline constexpr std::size_t kRanksDiagnosed = 8;
inline constexpr Millis kSilentAfter{3'500};
// Time after the controller's start in which agents come back (most within 15 s): until then nobody
// knows which nodes live.
inline constexpr Millis kReturnTime{30'000};
inline constexpr const char* kDeafWords = "one-way: it does not hear us";
inline constexpr const char* kUnansweredWords =
    "it does not say that it hears us: one-way, or it stands still";
inline constexpr Millis kRivalShown{60'000};     // that a second agent wants to be a node
inline constexpr Millis kTurnedAwayFor{30'000};  // a node that refused; 16 min at most, in a row
inline constexpr Millis kBeginAgain{600'000};    // the wall clock may jump while a job waits for it
inline constexpr Millis kAskAgain{30'000};       // a Stop that was not answered
inline constexpr std::size_t kChunkBytes = 512 << 10;
inline constexpr std::uint32_t kMaxAttempts = 1'000'000;  // of one job
inline constexpr std::uint32_t kMaxFloorJump = 1'000;     // beyond the attempts that we know of
// The name given as the one who holds and requeues jobs that a store that went back in time may
// know wrongly.
inline constexpr const char* kByRestore = "restore";
inline constexpr std::uint64_t kJobsSkipped = 10'000;  // when the store may have gone back
inline constexpr int kMaxNoticesPerMinute = 128;       // of one session
inline constexpr int kMaxDenialsPerMinute = 128;       // of all callers
inline constexpr Millis kPlansKept{60'000};            // after the end of their attempt, in memory

// What is left of the job's backoff; never more than it began with, whatever the clock does.
inline Millis BackoffLeft(const JobRecord& job, WallTime now) {
  constexpr Millis kOfAnOldRecord{600'000};  // which does not say how long it was
  const Millis most = job.backoff > Millis{0} ? job.backoff : kOfAnOldRecord;
  return std::clamp<Millis>(job.not_before - now, Millis{0}, most);
}
// Whether the job's attempt is to end for a new one, and why in words.
inline bool IsRequeued(const JobRecord& job) { return !job.requeued_by.empty() || job.went_back; }
inline std::string WhyRequeued(const JobRecord& job) {
  return "requeued by " + (job.requeued_by.empty() ? kByRestore : job.requeued_by);
}

}  // namespace launch::controller
