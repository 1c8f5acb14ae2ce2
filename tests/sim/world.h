// The simulated world: time, what is really running where, and what must never be seen there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/launch.h"
#include "controller/core/record.h"
#include "tests/sim/coverage.h"
#include "tests/sim/rng.h"
#include "tests/sim/schedule.h"

namespace launch::sim {

struct Options {
  std::uint64_t seed = 1;
  Schedule schedule;
  bool trace = false;
};

// One rank as it really ran. `cause` is what the kernel would say.
struct Process {
  Key key;
  Rank rank = 0;
  NodeId node;
  std::vector<GpuUuid> gpus;
  std::int64_t pid = 0;
  std::int64_t began = 0;
  std::optional<std::int64_t> ended;
  ExitCause cause;
  bool killed = false;     // SIGKILL is pending: it executes no more of its code, but holds on
  bool leased = false;     // it ends itself without word of the controller, who may then give it up
  bool lost = false;       // the node or the shim went down: nobody can know how it ended
  bool unguarded = false;  // its lease is over, and both who would end it are down or stopped
  // Given up although it lives, and nobody could know better: it is unguarded, or an operator said
  // that its machine is off.
  bool excused = false;
  // A store that went back knows nothing of its attempt, or not how it ended, which was told
  // before.
  bool unknown = false;
  bool told = false;
  bool begun_since = false;  // a store that went back unnoticed has its attempt as being prepared
  // Its agent was installed anew and has no groups to find it in: it is there, and only a person
  // who looks can see it.
  bool hidden = false;
  std::int64_t hidden_since = 0;
  bool forgotten = false;        // how it ended, by a node that lost its state after its attempt
  std::set<GpuUuid> given_back;  // by an operator, although it is on them
  std::int64_t shim_stopped_until = 0;  // SIGSTOP: until then its shim does nothing
};

class World {
 public:
  explicit World(const Options& chosen) : options(chosen) {}

  // ---- time: one queue of events, in order of time, then of arrival ----
  void At(std::int64_t delay_ms, std::function<void()> run);
  bool Step();  // false when nothing is left
  std::int64_t now = 0;

  // ---- crash points ----
  // `who` (a node, or empty: the controller) passes the point; true = it dies right here.
  bool Pass(const std::string& who, const std::string& point);
  void Arm(const Fault& fault);
  Coverage coverage;

  // ---- the ground truth ----
  std::vector<Process> processes;
  void Began(Process process);  // C2: no rank twice, no GPU for two jobs
  bool IsAlive(std::size_t process) const { return !processes[process].ended; }
  void Ended(std::size_t process, ExitCause cause);
  std::vector<std::size_t> AliveOf(const NodeId& node, const Key& key) const;
  // A stop of `key` on a node, asked for by `cause`, signals this process.
  void Signals(std::size_t process, const Key& key, StopCause cause);

  // ---- what was promised ----
  std::map<std::string, JobId> submitted;   // by idempotency key, once acknowledged
  std::map<JobId, std::int64_t> cancelled;  // time of the commit of an acknowledged cancel
  std::map<std::pair<Key, NodeId>, std::int64_t> go_sent;
  // The controller's host: how far its wall clock is off now, and at the first start of this boot.
  std::int64_t wall_offset = 0;
  std::int64_t wall_offset_of_boot = 0;
  int host_boot = 0;
  std::map<std::string, JobId> lost;  // acknowledged by a store of which nothing is left
  bool IsSubmitted(JobId job) const;
  // Whether the controller has heard the node since its start; set by the cluster.
  std::function<bool(const NodeId&)> was_heard = [](const NodeId&) { return true; };
  bool went_back() const { return went_back_.has_value(); }
  std::set<GpuUuid> release_asked;                       // by an operator, without an answer yet
  std::set<Key> release_told;                            // for whom he ever released a GPU
  std::set<JobId> requeue_asked;                         // somebody wanted it to run again
  std::map<JobId, std::int64_t> end_asked;               // its cancel or requeue: the last time
  std::map<NodeId, std::int64_t> fence_asked;            // the last time that it was called dead
  std::map<NodeId, std::int64_t> power_cuts;             // the last of each node
  std::map<NodeId, std::int64_t> reinstalled;            // the last time
  std::map<std::pair<JobId, NodeId>, Attempt> accepted;  // highest that the node told it accepted

  // Checkers of what the controller makes durable in one commit: C1, C3, C4, C5, C12, C15. The rows
  // that it deletes come after those that it writes.
  void Committed(const controller::Entity& entity, const std::set<GpuUuid>& quarantined);
  void QuarantineEnded(const GpuUuid& gpu, bool forgotten);  // C3; with the node that has it
  void ReleaseAnswered();  // what was asked for is given back, whatever else its commit held
  void NodeForgotten(const NodeId& node);
  void CommitEnds();
  // These rows are all that the store has now.
  void StoreWentBack(const std::map<std::string, controller::Entity>& rows, bool noticed);
  // C5: what the node's disk says after a start of its agent.
  void NodeStarts(const NodeId& node, const std::map<JobId, Attempt>& floors);
  void NodeForgets(const NodeId& node, const Key& key);
  void NodeLosesAll(const NodeId& node);
  // At the end, when all is healed and quiet.
  void CheckEnd(const std::map<std::string, controller::Entity>& durable);

  void Violation(std::string what);
  void Trace(const std::string& line);
  std::uint64_t trace_hash = 0xcbf29ce484222325ULL;
  std::vector<std::string> violations;
  const Options options;

 private:
  void JobCommitted(const controller::JobRecord& job, const std::set<GpuUuid>& quarantined);
  void AttemptCommitted(const controller::AttemptRecord& attempt);
  void RankCommitted(const controller::RankRecord& rank);
  void NodeCommitted(const controller::NodeRecord& node);
  bool IsLeased(JobId id) const;
  bool IsFenced(const Process& process) const;
  bool WasGivenBeforeFence(const Process& process) const;
  bool IsAskedToEnd(const Process& process) const;
  bool IsUnguardedByStore(const Process& process) const;
  bool IsRunAgain(const controller::JobRecord& job) const;
  void CheckPlace(const controller::JobRecord& before, const controller::JobRecord& after);
  void CheckTimeLimit(const controller::AttemptRecord& attempt, std::int64_t began);

  std::map<std::pair<std::int64_t, std::uint64_t>, std::function<void()>> queue_;
  std::uint64_t sequence_ = 0;
  struct Armed {
    Fault fault;
    std::int64_t left = 0;
  };
  std::vector<Armed> armed_;
  std::map<JobId, controller::JobRecord> jobs_;  // last committed
  std::map<JobId, std::int64_t> kept_since_;     // time of the commit that keeps a job's place
  std::map<Key, controller::AttemptRecord> attempts_;
  std::map<Key, std::int64_t> attempt_made_;
  struct Running {
    int host_boot = 0;
    std::int64_t wall_offset = 0;
  };
  std::map<Key, Running> running_;  // as it was when that was committed
  std::map<std::string, JobId> keys_;
  std::set<std::pair<Key, Rank>> given_up_;  // their end is recorded
  // An operator said that the node has no power: what it had then is given up, true or not.
  std::set<std::pair<NodeId, Key>> fenced_;
  std::set<std::pair<Key, NodeId>> holding_;        // allocations that are not released
  std::map<NodeId, controller::NodeRecord> nodes_;  // last committed
  std::set<NodeId> drained_;                        // before the commit that is looked at
  const Process* NewestOf(const Key& key, Rank rank) const;
  std::set<Key> stop_sent_;                      // by a store that is gone
  std::set<JobId> cancelled_since_;              // that this store knows
  std::optional<std::int64_t> went_back_;        // when the store last did
  std::vector<controller::AttemptRecord> made_;  // by the commit that is looked at
};

}  // namespace launch::sim
