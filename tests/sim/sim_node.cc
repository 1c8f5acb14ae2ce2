#include "tests/sim/sim_node.h"

#include <algorithm>
#include <utility>

namespace launch::sim {
namespace {

constexpr std::int64_t kProofLimit = 60'000;

}  // namespace

NodeInventory SimInventory(const std::string& name) {
  NodeInventory inventory;
  inventory.node = NodeId{name};
  inventory.cores = inventory.threads = 4;
  inventory.memory_bytes = 64ULL << 30;
  inventory.addresses = {
      {"eth0", "10.0.0." + std::to_string(name.back() - '0'), 1000, 1500, false}};
  for (int i = 0; i < 2; ++i) {
    GpuDevice gpu;
    gpu.uuid = GpuUuid{"GPU-" + name + "-" + std::to_string(i)};
    gpu.model = "NVIDIA H100 80GB HBM3";
    gpu.type = "H100";
    gpu.cc = ComputeCapability{9, 0};
    gpu.memory_bytes = 80ULL << 30;
    gpu.pci = "0000:0" + std::to_string(i + 1) + ":00.0";
    inventory.gpus.push_back(gpu);
  }
  inventory.driver = "570.0";
  inventory.driver_cuda = CudaVersion{12, 8};
  return inventory;
}

Behaviour BehaviourOf(const World& world, const std::string& job_name, const Key& key, Rank rank) {
  Rng rng(world.options.seed, job_name + "/" + ToString(key) + "/" + std::to_string(rank));
  Behaviour behaviour;
  behaviour.run_ms = rng.Between(200, 30'000);
  behaviour.ignores_term = rng.OneIn(5);
  behaviour.stuck = rng.OneIn(40);
  if (job_name.starts_with("forever")) behaviour.run_ms = 1LL << 40;
  if (job_name.starts_with("crash") && rank == 0) behaviour.code = 1;
  if (job_name.starts_with("recover") && key.attempt.value == 1) behaviour.code = 33;
  return behaviour;
}

SimNode::SimNode(World& world, std::string name, ToController send, HangUp close)
    : world_(world),
      id_{std::move(name)},
      send_(std::move(send)),
      close_(std::move(close)),
      delays_(world.options.seed, "delays of " + id_.value) {}

void SimNode::Later(std::int64_t delay_ms, std::function<void()> run) {
  world_.At(delay_ms, [this, incarnation = incarnation_, run = std::move(run)] {
    if (agent_ && incarnation == incarnation_) run();
  });
}

void SimNode::StartAgent() {
  if (agent_) return;
  ++incarnation_;
  agent::AgentIdentity identity;
  identity.node = id_;
  identity.machine.install_id = "install " + id_.value;
  identity.boot_id = id_.value + " boot " + std::to_string(boots_);
  world_.Trace("agent up " + id_.value);
  agent::Recovery recovery = agent::Recover(identity, Found(), Boot());
  agent_ = std::move(recovery.state);
  tick_at_.reset();
  for (const agent::Order& order : recovery.orders) Obey(order);
  Tell(agent::told::Inventory{SimInventory(id_.value), {}});
}

void SimNode::KillAgent() {
  if (!agent_) return;
  world_.Trace("agent killed " + id_.value);
  agent_.reset();
  ++incarnation_;
}

void SimNode::Reboot() {
  KillAgent();
  world_.Trace("reboot " + id_.value);
  for (std::size_t i = 0; i < world_.processes.size(); ++i) {
    if (world_.processes[i].ended || world_.processes[i].node != id_) continue;
    world_.processes[i].lost_with_node = true;
    world_.Ended(i, UnknownEnd{"node rebooted"});
  }
  ++boots_;
  booted_at_ = world_.now;
  world_.rebooted.insert(id_);
}

agent::RunnerState SimNode::Found() const {
  agent::RunnerState found;
  found.fence = fence_;
  for (const auto& [job, attempt] : floors_) found.floors.push_back({job, attempt});
  for (const auto& [key, directory] : disk_) {
    agent::FoundAllocation allocation;
    allocation.status.key = key;
    allocation.status.digest = directory.digest;
    allocation.status.ports = directory.ports;
    allocation.status.phase = directory.released          ? AllocationPhase::kReleased
                              : directory.dropped         ? AllocationPhase::kDropped
                              : directory.started.empty() ? AllocationPhase::kAccepted
                                                          : AllocationPhase::kStarted;
    allocation.boot_id = directory.boot_id;
    allocation.alive = !world_.AliveOf(id_, key).empty();
    allocation.spec = directory.spec;
    allocation.tombstone = directory.tombstone;
    allocation.acked.assign(directory.acked.begin(), directory.acked.end());
    if (directory.spec) {
      allocation.status.gpus = directory.spec->gpus;
      for (const RankSpec& rank : directory.spec->ranks) {
        RankStatus status;
        status.rank = rank.rank;
        const auto started = directory.started.find(rank.rank);
        status.started = started != directory.started.end();
        if (status.started) status.pid = started->second;
        const auto exit = directory.exits.find(rank.rank);
        if (exit != directory.exits.end() && !directory.acked.contains(rank.rank) &&
            world_.options.plant != Plant::kLostExit) {
          status.exit = exit->second;
        }
        allocation.status.ranks.push_back(std::move(status));
      }
    }
    found.allocations.push_back(std::move(allocation));
  }
  return found;
}

std::string SimNode::Kept() const {
  std::string kept;
  for (const auto& [key, directory] : disk_) {
    kept += " " + ToString(key) +
            (directory.released  ? "(released)"
             : directory.dropped ? "(dropped)"
                                 : "");
  }
  return kept;
}

void SimNode::Tell(const agent::Told& event) {
  if (!agent_) return;
  for (const agent::Order& order : agent::Step(*agent_, event, Boot())) Obey(order);
  ScheduleTick();
}

void SimNode::ScheduleTick() {
  if (!agent_) return;
  const std::optional<BootTime> due = agent::NextDeadline(*agent_);
  if (!due) return;
  const std::int64_t at = std::max(world_.now + 1, booted_at_ + ToMs(*due));
  if (tick_at_ && *tick_at_ <= at && *tick_at_ > world_.now) return;
  tick_at_ = at;
  Later(at - world_.now, [this, at] {
    if (tick_at_ != at) return;
    tick_at_.reset();
    Tell(agent::told::Tick{});
  });
}

void SimNode::Obey(const agent::Order& given) {
  namespace order = agent::order;
  if (const auto* send = std::get_if<order::Send>(&given)) {
    send_(send->stream, send->message);
  } else if (const auto* close = std::get_if<order::CloseLink>(&given)) {
    close_(close->stream);
  } else if (const auto* save = std::get_if<order::SaveFence>(&given)) {
    fence_ = save->fence;
  } else if (const auto* accept = std::get_if<order::Accept>(&given)) {
    Accept(*accept);
  } else if (const auto* stage = std::get_if<order::StageAllocation>(&given)) {
    Stage(*stage);
  } else if (const auto* start = std::get_if<order::Start>(&given)) {
    Start(*start);
  } else if (const auto* stop = std::get_if<order::StopAllocation>(&given)) {
    Stop(*stop);
  } else if (const auto* drop = std::get_if<order::Drop>(&given)) {
    disk_[drop->key].dropped = true;
  } else if (const auto* acked = std::get_if<order::NoteAcked>(&given)) {
    if (const auto found = disk_.find(acked->key); found != disk_.end()) {
      found->second.acked.insert(acked->rank);
    }
  } else if (const auto* forget = std::get_if<order::Forget>(&given)) {
    disk_.erase(forget->key);
    const auto floor = floors_.find(forget->key.job);
    if (floor != floors_.end() && floor->second <= forget->key.attempt) floors_.erase(floor);
  }
}

void SimNode::RaiseFloor(const Key& key) {
  Attempt& floor = floors_[key.job];
  floor = std::max(floor, key.attempt);
}

void SimNode::Accept(const agent::order::Accept& order) {
  Later(delays_.Between(1, 40), [this, order] {
    const Key& key = order.spec.key;
    if (disk_[key].tombstone) {
      Tell(agent::told::AcceptDone{key, Fail(ErrorCode::kFailedPrecondition, "stopped")});
      return;
    }
    for (const Process& process : world_.processes) {  // the GPU locks, which the kernel holds
      if (process.ended || process.node != id_ || process.key == key) continue;
      for (const GpuUuid& gpu : order.spec.gpus) {
        if (std::find(process.gpus.begin(), process.gpus.end(), gpu) == process.gpus.end())
          continue;
        disk_.erase(key);
        Tell(agent::told::AcceptDone{key, Fail(ErrorCode::kConflict, "the GPU's lock is held")});
        return;
      }
    }
    Directory& directory = disk_[key];
    directory = Directory{};
    directory.spec = order.spec;
    directory.digest = order.digest;
    directory.boot_id = agent_->identity.boot_id;
    if (order.spec.needs_ports) {
      directory.ports = PortBlock{next_port_, 4};
      next_port_ += 4;
    }
    RaiseFloor(key);
    Tell(agent::told::AcceptDone{key, directory.ports});
  });
}

void SimNode::Stage(const agent::order::StageAllocation& order) {
  Later(delays_.Between(5, delays_.OneIn(5) ? 20'000 : 400), [this, order] {
    StagingFacts facts;
    for (const std::string& master : order.stage.masters) {
      facts.reach.push_back({master, true, "eth0", ""});
    }
    Tell(agent::told::StageDone{order.stage.key, facts});
  });
}

// Shims are spawned one after the other; a killed agent leaves a half-spawned allocation behind.
void SimNode::Start(const agent::order::Start& order) {
  Later(delays_.Between(1, 60), [this, key = order.go.key] { Spawn(key, 0); });
}

void SimNode::Spawn(const Key& key, std::size_t position) {
  const auto found = disk_.find(key);
  if (found == disk_.end() || found->second.tombstone || !found->second.spec) return;
  Directory& directory = found->second;
  if (position == directory.spec->ranks.size()) {
    agent::told::StartDone done{key, {}, std::nullopt};
    for (const auto& [rank, pid] : directory.started) done.pids.emplace_back(rank, pid);
    Tell(done);
    return;
  }
  const RankSpec& rank = directory.spec->ranks[position];
  const Behaviour behaviour = BehaviourOf(world_, directory.spec->job_name, key, rank.rank);
  Process process;
  process.key = key;
  process.rank = rank.rank;
  process.node = id_;
  process.gpus = directory.spec->gpus;
  directory.started[rank.rank] = next_pid_++;
  const std::size_t index = world_.processes.size();
  world_.Began(std::move(process));
  world_.At(behaviour.run_ms,
            [this, index, behaviour] { EndProcess(index, Exited{behaviour.code}, false); });
  Later(delays_.Between(1, 60), [this, key, position] { Spawn(key, position + 1); });
}

// The shim survives the agent: it writes the exit record in any case.
void SimNode::EndProcess(std::size_t process, ExitCause cause, bool ours) {
  if (!world_.IsAlive(process)) return;
  world_.Ended(process, cause);
  const Process& ended = world_.processes[process];
  ExitReport report;
  report.key = ended.key;
  report.rank = ended.rank;
  report.boot_id = id_.value + " boot " + std::to_string(boots_);
  report.cause = std::move(cause);
  report.ended = Boot();
  if (ours) report.our_signals = {{15, Boot(), "stop"}};
  disk_[ended.key].exits[ended.rank] = report;
  if (agent_) {
    Later(delays_.Between(0, 20), [this, report] { Tell(agent::told::RankEnded{report}); });
  }
}

void SimNode::Stop(const agent::order::StopAllocation& order) {
  const Key key = order.key;
  Directory& directory = disk_[key];
  directory.tombstone = true;
  RaiseFloor(key);
  for (const std::size_t process : world_.AliveOf(id_, key)) {
    const std::string name = directory.spec ? directory.spec->job_name : "";
    const Behaviour behaviour = BehaviourOf(world_, name, key, world_.processes[process].rank);
    if (!behaviour.ignores_term && !behaviour.stuck) {
      world_.At(delays_.Between(10, 300), [this, process] {
        EndProcess(process, Signalled{15, false}, true);
      });
    }
    // KILL after the grace is the agent's doing; that of the stuck one takes effect much later.
    Later(order.grace.count(), [this, process, behaviour] {
      world_.processes[process].killed = true;
      world_.At(behaviour.stuck ? delays_.Between(70'000, 150'000) : delays_.Between(1, 20),
                [this, process] {
                  EndProcess(process, Signalled{9, false}, true);
                });
    });
  }
  if (world_.options.plant == Plant::kEarlyRelease) {
    Later(1, [this, key] {
      disk_[key].released = true;
      Tell(agent::told::StopDone{key, {}, {}});
    });
    return;
  }
  WatchStop(key, world_.now + order.grace.count() + kProofLimit);
}

void SimNode::WatchStop(const Key& key, std::int64_t give_up_at) {
  Later(delays_.Between(5, 60), [this, key, give_up_at] {
    const auto found = disk_.find(key);
    if (found == disk_.end()) return;
    const bool alive = !world_.AliveOf(id_, key).empty();
    if (alive && world_.now < give_up_at) {
      WatchStop(key, give_up_at);
      return;
    }
    // A record that was written in this very moment is told before the end of the stop.
    for (const auto& [rank, report] : found->second.exits) {
      if (!found->second.acked.contains(rank)) Tell(agent::told::RankEnded{report});
    }
    agent::told::StopDone done{key, {}, {}};
    if (alive && found->second.spec) {
      for (const GpuUuid& gpu : found->second.spec->gpus) done.held.emplace_back(gpu, "D state");
      if (done.held.empty()) {  // no GPU to hold back: wait for the end
        WatchStop(key, give_up_at + kProofLimit);
        return;
      }
    }
    found->second.released = !alive;
    Tell(done);
  });
}

}  // namespace launch::sim
