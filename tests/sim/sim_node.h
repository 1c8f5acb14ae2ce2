// One simulated host: disk and processes that survive the agent, a production agent core, a runner.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "agent/core/agent_core.h"
#include "tests/sim/world.h"

namespace launch::sim {

NodeInventory SimInventory(const std::string& name);
MachineIdentity SimMachine(const std::string& name);

// How one rank behaves; a function of the seed, the job and the attempt, not of time.
struct Behaviour {
  std::int64_t run_ms = 1000;
  int code = 0;
  bool ignores_term = false;
  bool stuck = false;  // survives even SIGKILL for minutes
};
Behaviour BehaviourOf(const World& world, const std::string& job_name, const Key& key, Rank rank);

class SimNode {
 public:
  // What the agent does with its streams.
  struct Link {
    std::function<void(std::uint64_t stream, FromNode message)> send;
    std::function<void(std::uint64_t stream)> close;
    std::function<void()> died;  // of whatever cause: its sockets are closed by the kernel
  };

  SimNode(World& world, std::string name, Link link);

  void StartAgent();
  void KillAgent();
  void PauseAgent();  // until ResumeAgent: nothing of it runs, what is told to it waits
  void ResumeAgent();
  void PowerCut();  // the agent stays down until StartAgent
  void SetDiskFull(bool full) { disk_full_ = full; }
  void KillShim();  // of the first rank that runs
  void PauseShim(std::int64_t lasts);
  // The agent is killed and its state directory is gone; what it started lives on.
  void LoseState();
  // Ends by hand what nobody here can see.
  void EndHidden();
  MachineIdentity machine() const;
  const Fence& seen() const { return fence_; }
  bool agent_up() const { return agent_.has_value(); }
  void Tell(const agent::Told& event);
  const NodeId& id() const { return id_; }
  std::string boot_id() const { return id_.value + "-boot-" + std::to_string(boots_); }
  std::size_t allocations() const { return disk_.size(); }
  std::string Kept() const;  // what its disk still holds, for messages

 private:
  // An attempt directory, and what the kernel knows beside it.
  struct Directory {
    std::optional<AllocationSpec> spec;  // absent: a tombstone only
    std::string digest;
    std::string boot_id;
    std::optional<PortBlock> ports;
    bool unsynced = false;  // the directory's entry is not on the disk yet
    bool tombstone = false;
    std::optional<agent::FoundStop> stop;  // the ladder under way
    bool released = false;
    bool given_up = false;  // its stop ended with something alive: a release that names held GPUs
    bool dropped = false;
    std::optional<BootTime> lease_end;
    std::map<Rank, std::int64_t> started;  // rank -> pid
    std::map<Rank, ExitReport> exits;
    std::set<Rank> acked;  // not synced: losing it only resends
    bool told_accepted = false;
  };

  BootTime Boot() const { return BootMs(world_.now - booted_at_); }
  void Handle(const agent::Told& event);
  void CountCell(const agent::Told& event);
  void NoteSent(std::uint64_t stream, const FromNode& message);
  void NoteAnswer(const agent::Told& event);
  void CheckLease(const Key& key, BootTime end);  // C3
  Result<void> Obey(const agent::Order& order);
  // The runner is one thread: an order waits until the ones before it are carried out.
  void Queue(std::int64_t takes_ms, std::function<void()> carry_out);
  void RunQueue();
  bool Dies(const std::string& point);  // true: the agent is dead now
  void Accept(const agent::order::Accept& order);
  void CarryOut(const agent::Order& order);
  void Stage(const agent::order::StageAllocation& order);
  void Spawn(const Key& key, std::size_t position);
  void Stop(const agent::order::StopAllocation& order);
  void Signal(const Key& key, std::size_t process, const agent::order::StopAllocation& order);
  void WatchStop(const Key& key, std::int64_t give_up_at);
  void TellStopDone(const Key& key, bool alive);
  void EndProcess(std::size_t process, ExitCause cause, StopCause ours);
  void RecordEnd(std::size_t process, const ExitReport& report);
  bool ShimStopped(std::size_t process) const;
  // A rank or a shim: what must be gone before the allocation is free.
  bool AnythingOf(const Key& key) const;
  std::vector<std::size_t> Seen(const Key& key) const;  // its ranks, as far as the agent finds them
  // The directory, or what the shims of one that is gone still know of it.
  const Directory* Remembered(const Key& key) const;
  bool HasGroups() const;
  void FindUnrecorded(agent::RunnerState& found);
  void WatchUnrecorded(const Key& key);
  void WatchLease(const Key& key, std::size_t process);  // what its shim does
  void WatchGuards(const Key& key, std::size_t process, std::int64_t guarded_since);
  void KillByLease(const Key& key, std::size_t process, const Behaviour& behaviour);
  void LeaseKill(std::size_t process);
  std::map<JobId, Attempt> Floors() const;
  std::int64_t NextPid() const;
  agent::RunnerState Found();
  void ScheduleTick();
  // Runs later unless this agent process is gone by then; a paused one does it when it resumes.
  void Later(std::int64_t delay_ms, std::function<void()> run);

  World& world_;
  const NodeId id_;
  const Link link_;
  Rng delays_;
  std::int64_t booted_at_ = 0;
  int boots_ = 1;
  std::map<Key, Directory> disk_;
  std::map<Key, Directory> gone_;  // with the state directory
  int installations_ = 1;
  Fence fence_;
  bool disk_full_ = false;
  int next_port_ = 20000;
  std::uint64_t incarnation_ = 0;
  std::optional<agent::AgentState> agent_;
  bool paused_ = false;
  std::deque<std::function<void()>> waiting_;  // while paused
  struct Queued {
    std::int64_t takes_ms = 0;
    std::function<void()> carry_out;
  };
  std::deque<Queued> runner_;  // the first is being carried out
  std::optional<std::int64_t> tick_at_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, BootTime> sent_;  // beats, by stream and number
  std::optional<BootTime> answered_;  // when the newest that was answered had been sent
  std::set<std::size_t> unrecorded_;  // ended, while their shim was stopped
};

}  // namespace launch::sim
