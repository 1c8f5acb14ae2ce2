// The simulated runner of a node: what the production one does to disk, locks and processes.
#include <algorithm>
#include <utility>

#include "common/planted.h"
#include "tests/sim/sim_node.h"

namespace launch::sim {
namespace {

constexpr std::int64_t kProofLimit = 60'000;
// The agent ends what outlives its lease by this long (agent/core/lease.cc).
constexpr std::int64_t kAgentsMoment = 2'000;
// A start of the agent, what its runner is at, and the signal.
constexpr std::int64_t kTimeToEnd = 3'000;
constexpr std::int64_t kLookEach = 100;

Unexpected DiskFull() {
  return Fail(ErrorCode::kResourceExhausted, "no space left on the state disk");
}

}  // namespace

Result<void> SimNode::Obey(const agent::Order& given) {
  namespace order = agent::order;
  if (const auto* send = std::get_if<order::Send>(&given)) {
    // It follows from each Pong: an agent that dies there dies at the beat, and the kept histories
    // count the passes without it.
    const bool counted = !std::holds_alternative<from_node::Heard>(send->message);
    if (counted && Dies("send.before")) return {};
    if (const auto* accepted = std::get_if<from_node::Accepted>(&send->message)) {
      Attempt& highest = world_.accepted[{accepted->key.job, id_}];
      // After each Welcome an agent says once more what it has.
      const auto directory = disk_.find(accepted->key);
      const bool again =
          directory != disk_.end() && std::exchange(directory->second.told_accepted, true);
      if (!again && accepted->key.attempt < highest) {
        world_.Violation("C5 " + id_.value + " accepts " + ToString(accepted->key) +
                         " although it accepted attempt " + std::to_string(highest.value));
      }
      highest = std::max(highest, accepted->key.attempt);
    }
    NoteSent(send->stream, send->message);
    link_.send(send->stream, send->message);
    if (counted) (void)Dies("send.after");
  } else if (const auto* close = std::get_if<order::CloseLink>(&given)) {
    link_.close(close->stream);
  } else if (const auto* save = std::get_if<order::SaveFence>(&given)) {
    if (disk_full_) return DiskFull();
    if (Dies("fence.before")) return {};
    fence_ = save->fence;
    (void)Dies("fence.after");
  } else if (const auto* accept = std::get_if<order::Accept>(&given)) {
    Queue(delays_.Between(1, 40), [this, accept = *accept] { Accept(accept); });
  } else {
    Queue(0, [this, given] { CarryOut(given); });
  }
  return {};
}

void SimNode::CarryOut(const agent::Order& given) {
  namespace order = agent::order;
  if (const auto* stage = std::get_if<order::StageAllocation>(&given)) {
    if (!Dies("stage.before")) Stage(*stage);
  } else if (const auto* start = std::get_if<order::Start>(&given)) {
    if (Dies("start.before")) return;
    disk_[start->go.key].lease_end = start->lease_end;
    if (start->lease_end) CheckLease(start->go.key, *start->lease_end);
    Later(delays_.Between(1, 60), [this, key = start->go.key] { Spawn(key, 0); });
  } else if (const auto* lease = std::get_if<order::ExtendLease>(&given)) {
    CheckLease(lease->key, lease->end);
    if (const auto found = disk_.find(lease->key); found != disk_.end()) {
      found->second.lease_end = lease->end;
    }
  } else if (const auto* stop = std::get_if<order::StopAllocation>(&given)) {
    if (!Dies("stop.before")) Stop(*stop);
  } else if (const auto* drop = std::get_if<order::Drop>(&given)) {
    if (Dies("drop.before")) return;
    if (const auto found = disk_.find(drop->key); found != disk_.end())
      found->second.dropped = true;
    (void)Dies("drop.after");
  } else if (const auto* acked = std::get_if<order::NoteAcked>(&given)) {
    if (Dies("acked.before")) return;
    if (const auto found = disk_.find(acked->key); found != disk_.end()) {
      found->second.acked.insert(acked->rank);
    }
    (void)Dies("acked.after");
  } else if (const auto* forget = std::get_if<order::Forget>(&given)) {
    if (Dies("forget.before")) return;
    world_.NodeForgets(id_, forget->key);
    disk_.erase(forget->key);
    (void)Dies("forget.after");
  }
}

void SimNode::Accept(const agent::order::Accept& order) {
  const Key& key = order.spec.key;
  if (Dies("accept.before")) return;
  if (disk_full_) {
    Tell(agent::told::AcceptDone{key, DiskFull()});
    return;
  }
  if (const auto known = disk_.find(key); known != disk_.end() && known->second.tombstone) {
    Tell(agent::told::AcceptDone{key, Fail(ErrorCode::kFailedPrecondition, "stopped")});
    return;
  }
  for (const Process& process : world_.processes) {  // the GPU locks, which the kernel holds
    if (process.ended || process.node != id_ || process.key == key) continue;
    if (Planted(Bug::kUncheckedRestart) || Planted(Bug::kReleaseAtExit)) continue;
    for (const GpuUuid& gpu : order.spec.gpus) {
      if (std::find(process.gpus.begin(), process.gpus.end(), gpu) == process.gpus.end()) {
        continue;
      }
      disk_.erase(key);
      Tell(agent::told::AcceptDone{key, Fail(ErrorCode::kConflict, "the GPU's lock is held")});
      return;
    }
  }
  Directory& directory = disk_[key];
  directory = Directory{};
  directory.unsynced = Planted(Bug::kUnsyncedAccept);
  directory.spec = order.spec;
  directory.digest = order.digest;
  directory.boot_id = agent_->identity.boot_id;
  if (order.spec.needs_ports) {
    directory.ports = PortBlock{next_port_, 4};
    next_port_ = next_port_ < 40'000 ? next_port_ + 4 : 20'000;
  }
  if (Dies("accept.after")) return;
  Tell(agent::told::AcceptDone{key, directory.ports});
}

void SimNode::Stage(const agent::order::StageAllocation& order) {
  Later(delays_.Between(5, delays_.OneIn(5) ? 20'000 : 400), [this, order] {
    StagingFacts facts;
    for (const std::string& master : order.stage.masters) {
      facts.reach.push_back({master, true, "eth0", ""});
    }
    if (Dies("stage.after")) return;
    Tell(agent::told::StageDone{order.stage.key, facts});
  });
}

// The lowest that nobody has: what ended gives its number to the next, as it may happen in a small
// pid namespace.
std::int64_t SimNode::NextPid() const {
  std::set<std::int64_t> taken;
  for (const Process& process : world_.processes) {
    if (!process.ended && process.node == id_) taken.insert(process.pid);
  }
  std::int64_t pid = 101;
  while (taken.contains(pid)) ++pid;
  return pid;
}

// Shims are spawned one after the other; a killed agent leaves a half-spawned allocation behind.
void SimNode::Spawn(const Key& key, std::size_t position) {
  const auto found = disk_.find(key);
  if (found == disk_.end() || found->second.tombstone || !found->second.spec) return;
  Directory& directory = found->second;
  if (position == directory.spec->ranks.size()) {
    if (Dies("start.after")) return;
    agent::told::StartDone done{key, {}, std::nullopt};
    for (const auto& [rank, pid] : directory.started) done.pids.emplace_back(rank, pid);
    Tell(done);
    return;
  }
  const RankSpec& rank = directory.spec->ranks[position];
  const Behaviour behaviour = BehaviourOf(world_, directory.spec->job_name, key, rank.rank);
  if (directory.lease_end && Boot() >= *directory.lease_end - directory.spec->stop.grace) {
    agent::told::StartDone failed{key, {}, FailedToStart{"lease", 0, "it is over"}};
    for (const auto& [number, pid] : directory.started) failed.pids.emplace_back(number, pid);
    Tell(failed);
    return;
  }
  Process process;
  process.leased = directory.lease_end.has_value();
  process.key = key;
  process.rank = rank.rank;
  process.node = id_;
  process.gpus = directory.spec->gpus;
  process.pid = NextPid();
  directory.started[rank.rank] = process.pid;
  const std::size_t index = world_.processes.size();
  world_.Began(std::move(process));
  world_.At(behaviour.run_ms, [this, index, behaviour] {
    EndProcess(index, Exited{behaviour.code}, StopCause::kNone);
  });
  if (directory.lease_end) {
    WatchLease(key, index);
    WatchGuards(key, index, world_.now);
  }
  if (Dies("start.spawned")) return;
  Later(delays_.Between(1, 60), [this, key, position] { Spawn(key, position + 1); });
}

void SimNode::WatchLease(const Key& key, std::size_t process) {
  const Directory* known = Remembered(key);
  if (known == nullptr || !world_.IsAlive(process)) return;
  const std::int64_t term = ToMs(*known->lease_end - known->spec->stop.grace) + booted_at_;
  if (world_.now < term) {
    world_.At(term - world_.now, [this, key, process] { WatchLease(key, process); });
    return;
  }
  if (ShimStopped(process)) {  // a timer that fires late
    world_.At(world_.processes[process].shim_stopped_until - world_.now,
              [this, key, process] { WatchLease(key, process); });
    return;
  }
  if (Planted(Bug::kLeaseOfAgent) && (!agent_ || paused_)) return;
  const Behaviour behaviour =
      BehaviourOf(world_, known->spec->job_name, key, world_.processes[process].rank);
  ++world_.coverage.faults["lease over"];
  world_.Trace("the lease of " + ToString(key) + " is over");
  KillByLease(key, process, behaviour);
}

// A leased rank has two guards, its shim and the agent; one of them is enough. While both are down
// or stopped nobody ends it, and the controller cannot know. It ends soon after one of them is
// back.
void SimNode::WatchGuards(const Key& key, std::size_t process, std::int64_t guarded_since) {
  const Directory* known = Remembered(key);
  if (known == nullptr || !known->lease_end || !world_.IsAlive(process)) return;
  const std::int64_t due = ToMs(*known->lease_end) + booted_at_ + kAgentsMoment;
  const auto record = disk_.find(key);
  const bool has_lease = record != disk_.end() && record->second.lease_end;
  const bool by_agent = agent_ && !paused_ && has_lease;
  const bool guarded = !ShimStopped(process) || by_agent;
  Process& rank = world_.processes[process];
  if (!guarded) guarded_since = world_.now;
  if (world_.now >= due && !guarded && !rank.unguarded) {
    rank.unguarded = true;
    ++world_.coverage.faults["lease over, no guard"];
    world_.Trace("nobody ends " + ToString(key) + ", whose lease is over");
  }
  if (world_.now - std::max(guarded_since, due) > kTimeToEnd) {
    world_.Violation("C3 rank " + std::to_string(rank.rank) + " of " + ToString(key) +
                     " outlives its lease on " + id_.value);
    return;
  }
  const std::int64_t next = std::max(kLookEach, due - world_.now);
  world_.At(next,
            [this, key, process, guarded_since] { WatchGuards(key, process, guarded_since); });
}

// TERM now, KILL at the end of the lease as it was then.
void SimNode::KillByLease(const Key& key, std::size_t process, const Behaviour& behaviour) {
  if (!behaviour.ignores_term) {
    world_.At(delays_.Between(10, 300), [this, process] {
      EndProcess(process, Signalled{15, false}, StopCause::kLease);
    });
  }
  const std::int64_t end = ToMs(*Remembered(key)->lease_end) + booted_at_;
  world_.At(std::max<std::int64_t>(0, end - world_.now), [this, process] { LeaseKill(process); });
}

void SimNode::LeaseKill(std::size_t process) {
  if (ShimStopped(process)) {
    world_.At(world_.processes[process].shim_stopped_until - world_.now,
              [this, process] { LeaseKill(process); });
    return;
  }
  EndProcess(process, Signalled{9, false}, StopCause::kLease);
}

// The shim survives the agent: it writes the exit record in any case, unless it was killed itself.
void SimNode::EndProcess(std::size_t process, ExitCause cause, StopCause ours) {
  if (!world_.IsAlive(process)) return;
  const bool recorded = !world_.processes[process].lost;
  world_.Ended(process, recorded ? cause : ExitCause{UnknownEnd{"its shim was killed"}});
  const Process& ended = world_.processes[process];
  ExitReport report;
  report.key = ended.key;
  report.rank = ended.rank;
  report.boot_id = boot_id();
  report.cause = recorded ? std::move(cause) : UnknownEnd{"supervisor killed"};
  report.ended = Boot();
  if (ours != StopCause::kNone) {
    report.our_signals = {{15, Boot(), std::string(ToString(ours))}};
  }
  if (recorded && ShimStopped(process)) {
    unrecorded_.insert(process);
    world_.At(ended.shim_stopped_until - world_.now, [this, process, report] {
      if (unrecorded_.erase(process) > 0) RecordEnd(process, report);
    });
    return;
  }
  RecordEnd(process, report);
}

void SimNode::RecordEnd(std::size_t process, const ExitReport& report) {
  const Process& ended = world_.processes[process];
  const auto found = disk_.find(ended.key);
  if (!ended.lost && found != disk_.end()) found->second.exits[ended.rank] = report;
  if (agent_ && found != disk_.end()) {
    Later(delays_.Between(0, 20), [this, report] { Tell(agent::told::RankEnded{report}); });
  }
}

void SimNode::Signal(const Key& key, std::size_t process,
                     const agent::order::StopAllocation& order) {
  if (Planted(Bug::kRememberedPid)) {  // the number, whoever has it by now
    for (std::size_t i = 0; i < world_.processes.size(); ++i) {
      const Process& other = world_.processes[i];
      const auto& started = disk_[key].started;
      const bool has_pid = std::any_of(started.begin(), started.end(), [&](const auto& entry) {
        return entry.second == other.pid;
      });
      if (!other.ended && other.node == id_ && has_pid) world_.Signals(i, key, order.cause);
    }
  }
  const Directory& directory = disk_.at(key);
  // Repeated after a restart of the agent, the stop of an outlived lease has another cause.
  const bool outlived = directory.lease_end && Boot() >= *directory.lease_end;
  world_.Signals(process, key, outlived ? StopCause::kLease : order.cause);
  const Directory* known = Remembered(key);
  const std::string name = known != nullptr ? known->spec->job_name : "";
  const Behaviour behaviour = BehaviourOf(world_, name, key, world_.processes[process].rank);
  if (!behaviour.ignores_term && !behaviour.stuck && !ShimStopped(process)) {
    world_.At(delays_.Between(10, 300), [this, process] {
      EndProcess(process, Signalled{15, false}, StopCause::kStale);
    });
  }
  // KILL after the grace is the agent's doing; that of the stuck one takes effect much later.
  Later(order.grace.count(), [this, process, behaviour] {
    world_.processes[process].killed = true;
    world_.At(behaviour.stuck ? delays_.Between(70'000, 150'000) : delays_.Between(1, 20),
              [this, process] {
                EndProcess(process, Signalled{9, false}, StopCause::kStale);
              });
  });
}

void SimNode::Stop(const agent::order::StopAllocation& order) {
  const Key key = order.key;
  Directory& directory = disk_[key];
  directory.tombstone = true;
  if (directory.boot_id.empty()) directory.boot_id = boot_id();
  if (Dies("stop.tombstone")) return;
  directory.stop = agent::FoundStop{order.cause, order.grace};
  // Gone on with after a boot it ends nothing: the lease was over by the clock of the boot before.
  if (order.cause == StopCause::kLease && directory.boot_id == boot_id() &&
      (!directory.lease_end || Boot() < *directory.lease_end)) {
    world_.Violation("C3 " + id_.value + " ends " + ToString(key) + " before its lease is over");
  }
  const std::vector<std::size_t> alive = Seen(key);
  if (Planted(Bug::kRememberedPid) && alive.empty()) {
    for (std::size_t i = 0; i < world_.processes.size(); ++i) {
      const Process& other = world_.processes[i];
      if (other.ended || other.node != id_) continue;
      for (const auto& [rank, pid] : directory.started) {
        if (pid == other.pid) world_.Signals(i, key, order.cause);
      }
    }
  }
  for (const std::size_t process : alive) Signal(key, process, order);
  if (Planted(Bug::kEarlyRelease)) {
    Later(1, [this, key] {
      disk_[key].released = true;
      Tell(agent::told::StopDone{key, {}, {}});
    });
    return;
  }
  WatchStop(key, world_.now + order.grace.count() + kProofLimit);
  (void)Dies("stop.after");
}

void SimNode::WatchStop(const Key& key, std::int64_t give_up_at) {
  Later(delays_.Between(5, 60), [this, key, give_up_at] {
    const auto found = disk_.find(key);
    if (found == disk_.end()) return;
    const bool alive = AnythingOf(key);
    if (alive && world_.now < give_up_at) {
      WatchStop(key, give_up_at);
      return;
    }
    if (alive && (!found->second.spec || found->second.spec->gpus.empty())) {
      WatchStop(key, give_up_at + kProofLimit);  // no GPU to hold back: wait for the end
      return;
    }
    TellStopDone(key, alive);
  });
}

void SimNode::TellStopDone(const Key& key, bool alive) {
  Directory& directory = disk_.at(key);
  // A record that was written in this very moment is told before the end of the stop.
  for (const auto& [rank, report] : directory.exits) {
    if (!directory.acked.contains(rank)) Tell(agent::told::RankEnded{report});
    if (!agent_) return;
  }
  agent::told::StopDone done{key, {}, {}};
  if (alive) {
    for (const GpuUuid& gpu : directory.spec->gpus) done.held.emplace_back(gpu, "D state");
  }
  directory.released = !alive;
  directory.given_up = alive;
  if (Dies("stop.released")) return;
  Tell(done);
}

}  // namespace launch::sim
