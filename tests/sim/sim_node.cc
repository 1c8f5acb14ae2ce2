#include "tests/sim/sim_node.h"

#include <algorithm>
#include <utility>

#include "common/planted.h"

namespace launch::sim {
namespace {

constexpr std::uint64_t kHelloNumber = 0;  // beats count from 1

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
  // One of them has no groups: its agent finds by them what one before it started.
  inventory.containment = name == "n3" ? Containment::kTree : Containment::kCgroup;
  inventory.driver = "570.0";
  inventory.driver_cuda = CudaVersion{12, 8};
  return inventory;
}

MachineIdentity SimMachine(const std::string& name) {
  MachineIdentity machine;
  machine.install_id = "install " + name;
  machine.product_uuid = "product " + name;
  return machine;
}

Behaviour BehaviourOf(const World& world, const std::string& job_name, const Key& key, Rank rank) {
  Rng rng(world.options.seed, job_name + "/" + ToString(key) + "/" + std::to_string(rank));
  Behaviour behaviour;
  behaviour.run_ms = rng.Between(200, 30'000);
  behaviour.ignores_term = rng.OneIn(5);
  behaviour.stuck = rng.OneIn(40);
  if (job_name.starts_with("forever")) behaviour.run_ms = 1LL << 40;
  if (job_name.starts_with("stuck")) {
    behaviour.run_ms = 1LL << 40;
    behaviour.stuck = rank == 0;
  }
  if (job_name.starts_with("crash") && rank == 0) behaviour.code = 1;
  if (job_name.ends_with("-leased")) behaviour.stuck = false;  // no lease ends a process in D state
  if (job_name.starts_with("recover") && key.attempt.value == 1) behaviour.code = 33;
  return behaviour;
}

SimNode::SimNode(World& world, std::string name, Link link)
    : world_(world),
      id_{std::move(name)},
      link_(std::move(link)),
      delays_(world.options.seed, "delays of " + id_.value) {}

void SimNode::Later(std::int64_t delay_ms, std::function<void()> run) {
  world_.At(delay_ms, [this, incarnation = incarnation_, run = std::move(run)] {
    if (!agent_ || incarnation != incarnation_) return;
    if (paused_) {
      waiting_.push_back(run);
    } else {
      run();
    }
  });
}

void SimNode::Queue(std::int64_t takes_ms, std::function<void()> carry_out) {
  runner_.push_back({takes_ms, std::move(carry_out)});
  if (runner_.size() == 1) RunQueue();
}

void SimNode::RunQueue() {
  const std::uint64_t incarnation = incarnation_;
  while (agent_ && incarnation == incarnation_ && !runner_.empty()) {
    Queued& first = runner_.front();
    if (first.takes_ms > 0) {
      Later(std::exchange(first.takes_ms, 0), [this] { RunQueue(); });
      return;
    }
    const std::function<void()> carry_out = first.carry_out;
    carry_out();  // may end the agent, and the queue with it
    if (incarnation == incarnation_ && !runner_.empty()) runner_.pop_front();
  }
}

bool SimNode::Dies(const std::string& point) {
  if (!agent_ || !world_.Pass(id_.value, point)) return false;
  KillAgent();
  // Its supervisor starts it again, unless somebody else does something to it first.
  world_.At(delays_.Between(50, delays_.OneIn(5) ? 70'000 : 4'000),
            [this, incarnation = incarnation_] {
              if (incarnation == incarnation_) StartAgent();
            });
  return true;
}

void SimNode::StartAgent() {
  if (agent_) return;
  ++incarnation_;
  paused_ = false;
  waiting_.clear();
  runner_.clear();
  agent::AgentIdentity identity;
  identity.node = id_;
  identity.machine = machine();
  identity.boot_id = boot_id();
  identity.instance = "life " + std::to_string(incarnation_);
  sent_.clear();
  answered_.reset();
  world_.Trace("agent up " + id_.value);
  agent::Recovery recovery = agent::Recover(identity, Found(), Boot());
  agent_ = std::move(recovery.state);
  tick_at_.reset();
  if (Dies("recover")) return;
  for (const agent::Order& order : recovery.orders) {
    (void)Obey(order);
    if (!agent_) return;
  }
  Tell(agent::told::Inventory{SimInventory(id_.value), {}});
}

void SimNode::KillAgent() {
  if (!agent_) return;
  world_.Trace("agent killed " + id_.value);
  agent_.reset();
  paused_ = false;
  waiting_.clear();
  runner_.clear();
  ++incarnation_;
  link_.died();
}

void SimNode::PauseAgent() {
  if (agent_) paused_ = true;
}

void SimNode::ResumeAgent() {
  paused_ = false;
  std::deque<std::function<void()>> waiting = std::exchange(waiting_, {});
  for (const auto& run : waiting) {
    if (agent_) run();
  }
}

void SimNode::PowerCut() {
  KillAgent();
  ++incarnation_;
  world_.Trace("power cut " + id_.value);
  world_.power_cuts[id_] = world_.now;
  for (std::size_t i = 0; i < world_.processes.size(); ++i) {
    if (world_.processes[i].ended || world_.processes[i].node != id_) continue;
    world_.processes[i].lost = true;
    world_.Ended(i, UnknownEnd{"node rebooted"});
  }
  for (const std::size_t process : std::exchange(unrecorded_, {})) {
    world_.processes[process].lost = true;
  }
  std::erase_if(disk_, [](const auto& entry) { return entry.second.unsynced; });
  for (auto& [key, directory] : disk_) {
    std::erase_if(directory.acked, [&](Rank) { return delays_.OneIn(2); });
  }
  ++boots_;
  booted_at_ = world_.now;
}

void SimNode::KillShim() {
  for (std::size_t i = 0; i < world_.processes.size(); ++i) {
    Process& process = world_.processes[i];
    if (process.ended || process.node != id_ || process.lost || ShimStopped(i)) continue;
    const bool has_record = disk_.contains(process.key);
    if (process.leased && (!agent_ || paused_ || !has_record))
      continue;           // both guards at once: not in the model
    process.lost = true;  // its rank runs on, and its end is nobody's record
    if (process.leased) {
      world_.At(delays_.Between(10, 900), [this, i] {
        EndProcess(i, Signalled{9, false}, StopCause::kNone);
      });
    }
    world_.Trace("shim of rank " + std::to_string(process.rank) + " of " + ToString(process.key) +
                 " killed");
    return;
  }
}

void SimNode::PauseShim(std::int64_t lasts) {
  for (std::size_t i = 0; i < world_.processes.size(); ++i) {
    Process& process = world_.processes[i];
    if (process.ended || process.node != id_ || process.lost || ShimStopped(i)) continue;
    process.shim_stopped_until = world_.now + lasts;
    world_.Trace("shim of rank " + std::to_string(process.rank) + " of " + ToString(process.key) +
                 " stopped");
    return;
  }
}

bool SimNode::ShimStopped(std::size_t process) const {
  return world_.now < world_.processes[process].shim_stopped_until;
}

void SimNode::LoseState() {
  KillAgent();
  ++installations_;
  for (std::size_t i = 0; i < world_.processes.size(); ++i) {
    Process& process = world_.processes[i];
    const auto found = disk_.find(process.key);
    if (process.node != id_ || found == disk_.end()) continue;
    if (!process.ended && !HasGroups() && !process.hidden) {
      process.hidden = true;
      process.hidden_since = world_.now;
    }
    if (!found->second.acked.contains(process.rank)) process.lost = true;
    // That release may be on its way and end the attempt: how this one ends nobody tells then.
    if (found->second.given_up) process.forgotten = true;
    if (!HasGroups()) unrecorded_.erase(i);
  }
  for (auto& [key, directory] : disk_) gone_[key] = std::move(directory);
  disk_.clear();
  fence_ = {};
  world_.NodeLosesAll(id_);
  world_.Trace("state of " + id_.value + " lost");
}

void SimNode::EndHidden() {
  for (std::size_t i = 0; i < world_.processes.size(); ++i) {
    if (world_.processes[i].hidden && world_.processes[i].node == id_) {
      EndProcess(i, Signalled{9, false}, StopCause::kNone);
    }
  }
}

bool SimNode::HasGroups() const {
  return SimInventory(id_.value).containment != Containment::kTree;
}

MachineIdentity SimNode::machine() const {
  MachineIdentity machine = SimMachine(id_.value);
  machine.install_id += " installation " + std::to_string(installations_);
  return machine;
}

const SimNode::Directory* SimNode::Remembered(const Key& key) const {
  if (const auto found = disk_.find(key); found != disk_.end() && found->second.spec)
    return &found->second;
  const auto gone = gone_.find(key);
  return gone == gone_.end() ? nullptr : &gone->second;
}

std::vector<std::size_t> SimNode::Seen(const Key& key) const {
  std::vector<std::size_t> seen = world_.AliveOf(id_, key);
  std::erase_if(seen, [&](std::size_t process) { return world_.processes[process].hidden; });
  return seen;
}

bool SimNode::AnythingOf(const Key& key) const {
  if (!Seen(key).empty()) return true;
  return std::any_of(unrecorded_.begin(), unrecorded_.end(),
                     [&](std::size_t process) { return world_.processes[process].key == key; });
}

std::map<JobId, Attempt> SimNode::Floors() const {
  std::map<JobId, Attempt> floors;
  for (const auto& [key, directory] : disk_) {
    floors[key.job] = std::max(floors[key.job], key.attempt);
  }
  return floors;
}

agent::RunnerState SimNode::Found() {
  agent::RunnerState found;
  found.fence = fence_;
  if (HasGroups()) found.cgroups = "/sys/fs/cgroup/launch-" + id_.value;
  world_.NodeStarts(id_, Floors());
  for (const auto& [job, attempt] : Floors()) found.floors.push_back({job, attempt});
  for (auto& [key, directory] : disk_) {
    if (Planted(Bug::kUncheckedRestart)) continue;
    agent::FoundAllocation allocation;
    allocation.status.key = key;
    allocation.status.digest = directory.digest;
    allocation.status.ports = directory.ports;
    allocation.status.phase = directory.released          ? AllocationPhase::kReleased
                              : directory.dropped         ? AllocationPhase::kDropped
                              : directory.started.empty() ? AllocationPhase::kAccepted
                                                          : AllocationPhase::kStarted;
    allocation.boot_id = directory.boot_id;
    allocation.alive = AnythingOf(key);
    allocation.spec = directory.spec;
    allocation.lease_end = directory.lease_end;
    allocation.tombstone = directory.tombstone;
    allocation.stop = directory.stop;
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
            !Planted(Bug::kLostExit)) {
          status.exit = exit->second;
        }
        allocation.status.ranks.push_back(std::move(status));
      }
    }
    found.allocations.push_back(std::move(allocation));
  }
  FindUnrecorded(found);
  return found;
}

void SimNode::FindUnrecorded(agent::RunnerState& found) {
  for (const auto& [key, directory] : gone_) {
    if (disk_.contains(key) || !AnythingOf(key)) continue;
    agent::FoundAllocation allocation;
    allocation.status.key = key;
    allocation.alive = true;
    allocation.unreadable = true;
    allocation.why = "there is no record of it";
    found.allocations.push_back(std::move(allocation));
    WatchUnrecorded(key);
  }
}

// How they ended nobody wrote down; that they are gone can be seen.
void SimNode::WatchUnrecorded(const Key& key) {
  Later(delays_.Between(100, 1'000), [this, key] {
    if (disk_.contains(key)) return;  // it is being stopped: that tells its end
    if (AnythingOf(key)) return WatchUnrecorded(key);
    Tell(agent::told::StopDone{key, {}, {}});
  });
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
  if (paused_) {
    waiting_.push_back([this, event] { Handle(event); });
  } else {
    Handle(event);
  }
}

void SimNode::Handle(const agent::Told& event) {
  if (!agent_) return;
  CountCell(event);
  NoteAnswer(event);
  // A copy: an order may end the process, and its state with it.
  agent::AgentState state = std::move(*agent_);
  agent_.emplace();
  const std::uint64_t incarnation = incarnation_;
  agent_->identity = state.identity;
  agent::Act(state, event, Boot(), [&](const agent::Order& order) -> Result<void> {
    if (incarnation != incarnation_) return {};  // dead already
    return Obey(order);
  });
  if (incarnation != incarnation_ || !agent_) return;
  agent_ = std::move(state);
  ScheduleTick();
}

void SimNode::NoteSent(std::uint64_t stream, const FromNode& message) {
  if (const auto* beat = std::get_if<from_node::Beat>(&message)) sent_[{stream, beat->n}] = Boot();
  if (std::holds_alternative<from_node::Hello>(message)) sent_[{stream, kHelloNumber}] = Boot();
}

// When what the controller answered was sent, for the check of leases.
void SimNode::NoteAnswer(const agent::Told& event) {
  const auto* message = std::get_if<agent::told::FromController>(&event);
  if (message == nullptr) return;
  std::uint64_t number = kHelloNumber;
  if (const auto* pong = std::get_if<to_node::Pong>(&message->envelope.body)) {
    number = pong->n;
  } else if (!std::holds_alternative<to_node::Welcome>(message->envelope.body)) {
    return;
  }
  const auto sent = sent_.find({message->stream, number});
  if (sent != sent_.end()) answered_ = std::max(answered_.value_or(sent->second), sent->second);
}

// A lease counts from when the node sent what was answered, never from the answer.
void SimNode::CheckLease(const Key& key, BootTime end) {
  const auto found = disk_.find(key);
  if (found == disk_.end() || !found->second.spec || !found->second.spec->lease || !answered_)
    return;
  if (end <= *answered_ + *found->second.spec->lease) return;
  world_.Violation("C3 the lease of " + ToString(key) + " on " + id_.value + " ends " +
                   std::to_string((end - *answered_ - *found->second.spec->lease).count()) +
                   " ms after what the controller may count on");
}

void SimNode::CountCell(const agent::Told& event) {
  static constexpr const char* kPhases[] = {"accepting", "accepted",  "staging",  "ready",
                                            "starting",  "started",   "stopping", "released",
                                            "dropped",   "unreadable"};
  static constexpr const char* kTold[] = {
      "LinkUp",          "LinkDown",      "",          "Inventory", "Sampled",  "AcceptDone",
      "StageDone",       "StageProgress", "StartDone", "RankEnded", "StopDone", "NodeNotice",
      "StacksCollected", "Tick"};
  static constexpr const char* kBodies[] = {"Welcome", "Pong",          "Prepare", "Stage",
                                            "Go",      "Stop",          "ExitAck", "Forget",
                                            "Retest",  "CollectStacks", "OpenExec"};
  ++world_.coverage.events;
  std::string name = kTold[event.index()];
  std::optional<Key> key;
  const auto key_of = [&](const auto& body) {
    if constexpr (requires { body.key.job; }) key = body.key;
    if constexpr (requires { body.spec.key; }) key = body.spec.key;
    if constexpr (requires { body.report.key; }) key = body.report.key;
  };
  if (const auto* message = std::get_if<agent::told::FromController>(&event)) {
    name = kBodies[message->envelope.body.index()];
    std::visit(key_of, message->envelope.body);
  } else {
    std::visit(key_of, event);
  }
  std::string phase = "-";
  if (key) {
    const auto found = agent_->allocations.find(*key);
    phase = found == agent_->allocations.end()
                ? "unknown"
                : kPhases[static_cast<std::size_t>(found->second.phase)];
  }
  ++world_.coverage.agent_cells[phase + " x " + name];
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

}  // namespace launch::sim
