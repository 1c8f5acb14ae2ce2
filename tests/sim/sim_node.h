// One simulated host: disk and processes that survive the agent, a production agent core, a runner.
#pragma once

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

// How one rank behaves; a function of the seed, the job and the attempt, not of time.
struct Behaviour {
  std::int64_t run_ms = 1000;
  int code = 0;
  bool ignores_term = false;
  bool stuck = false;  // survives even SIGKILL for minutes
};
// Jobs tell their nature in their name: see sim_client.cc.
Behaviour BehaviourOf(const World& world, const std::string& job_name, const Key& key, Rank rank);

class SimNode {
 public:
  // Called with what the agent puts on its stream.
  using ToController = std::function<void(std::uint64_t stream, FromNode message)>;
  using HangUp = std::function<void(std::uint64_t stream)>;

  SimNode(World& world, std::string name, ToController send, HangUp close);

  void StartAgent();
  void KillAgent();
  void Reboot();  // the agent stays down until StartAgent
  bool agent_up() const { return agent_.has_value(); }
  void Tell(const agent::Told& event);
  const NodeId& id() const { return id_; }
  std::size_t allocations() const { return disk_.size(); }
  std::string Kept() const;  // what its disk still holds, for messages

 private:
  // An attempt directory, and what the kernel knows beside it.
  struct Directory {
    std::optional<AllocationSpec> spec;  // absent: a tombstone only
    std::string digest;
    std::string boot_id;
    std::optional<PortBlock> ports;
    bool tombstone = false;
    bool released = false;
    bool dropped = false;
    std::map<Rank, std::int64_t> started;  // rank -> pid
    std::map<Rank, ExitReport> exits;
    std::set<Rank> acked;
    bool stop_answered = false;
  };

  BootTime Boot() const { return BootMs(world_.now - booted_at_); }
  void Obey(const agent::Order& order);
  void Accept(const agent::order::Accept& order);
  void Stage(const agent::order::StageAllocation& order);
  void Start(const agent::order::Start& order);
  void Spawn(const Key& key, std::size_t position);
  void Stop(const agent::order::StopAllocation& order);
  void WatchStop(const Key& key, std::int64_t give_up_at);
  void EndProcess(std::size_t process, ExitCause cause, bool ours);
  void RaiseFloor(const Key& key);
  agent::RunnerState Found() const;
  void ScheduleTick();
  // Runs later unless this agent process is gone by then.
  void Later(std::int64_t delay_ms, std::function<void()> run);

  World& world_;
  const NodeId id_;
  ToController send_;
  HangUp close_;
  Rng delays_;
  std::int64_t booted_at_ = 0;
  int boots_ = 1;
  std::map<Key, Directory> disk_;
  std::map<JobId, Attempt> floors_;
  Fence fence_;
  int next_port_ = 20000;
  std::int64_t next_pid_ = 100;
  std::uint64_t incarnation_ = 0;
  std::optional<agent::AgentState> agent_;
  std::optional<std::int64_t> tick_at_;
};

}  // namespace launch::sim
