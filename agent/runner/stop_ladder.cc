// RunnerLoop: tombstone, checkpoint signal, TERM, grace, kill, proof that nothing is left.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include "agent/runner/process.h"
#include "agent/runner/runner_loop.h"
#include "agent/shim/shim_record.h"
#include "common/failpoint.h"

namespace launch::agent {
namespace {

// Only a stop that somebody chose leaves time for a checkpoint.
bool WantsCheckpoint(StopCause cause) {
  return cause == StopCause::kCancelled || cause == StopCause::kTimeLimit ||
         cause == StopCause::kPreempted;
}

bool Alive(const RankRun& rank) { return rank.spawned && !rank.end; }

// The rank's own process, a shell or a launcher, has ended before what it started: a supervisor
// lives as long as anything descends from it, at every level of containment.
bool LeftSomething(const RankRun& rank) { return rank.spawned && rank.end && rank.shim; }

// The trainer may be what is left, and still be saving: who chose the stop left it that time. Where
// a rank failed nobody did, and the next attempt waits. What is left of docker's client only holds
// the container, and heeds no TERM.
bool WaitsForLeft(const AllocationRun& run) {
  const bool behind_docker =
      run.spec && run.spec->container && run.spec->container->runtime == "docker";
  return WantsCheckpoint(run.stop->cause) && !behind_docker;
}

std::vector<int> ShimPids(const AllocationRun& run) {
  std::vector<int> pids;
  for (const auto& [rank, state] : run.ranks) {
    if (state.shim) pids.push_back(state.shim_pid);
  }
  if (run.setup && run.setup->shim) pids.push_back(run.setup->shim_pid);
  return pids;
}

// Processes that are known to be ours: each lives behind a pidfd that was checked when it was
// taken.
std::vector<int> RootPids(const AllocationRun& run) {
  std::vector<int> pids = ShimPids(run);
  const auto add = [&](const RankRun& rank) {
    if (rank.orphan) pids.push_back(static_cast<int>(rank.pid));
  };
  for (const auto& [rank, state] : run.ranks) add(state);
  if (run.setup) add(*run.setup);
  return pids;
}

}  // namespace

// Through the shim, or straight to the members when there is none. False = not yet possible.
bool RunnerLoop::SendToShim(AllocationRun& run, RankRun& rank, std::uint32_t op, int signal) {
  if (rank.shim) {
    const std::string path = run.dir.RankPath(rank.rank) + "/control";
    const UniqueFd fifo(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    shim::Command command;
    command.op = static_cast<shim::Op>(op);
    command.signal = signal;
    command.why = static_cast<std::uint32_t>(run.stop ? run.stop->cause : StopCause::kNone);
    return fifo && ::write(fifo.get(), &command, sizeof command) == sizeof command;
  }
  if (op == static_cast<std::uint32_t>(shim::Op::kSignalRank) ||
      run.cgroup.level() == Containment::kTree) {
    if (rank.orphan) SignalPidFd(rank.orphan, signal);
    return true;
  }
  for (const int pid : run.cgroup.RankMembers(rank.rank)) {
    const UniqueFd process = OpenPidFd(pid);
    const std::vector<int> members = run.cgroup.RankMembers(rank.rank);
    if (process && std::find(members.begin(), members.end(), pid) != members.end()) {
      SignalPidFd(process, signal);
    }
  }
  return true;
}

// Once per rank and step; a shim that is not ready to listen is tried again at the next sweep.
void RunnerLoop::SendToAll(AllocationRun& run, std::uint32_t op, int signal) {
  const auto send = [&](RankRun& rank) {
    if (!Alive(rank) || rank.signal_sent == signal) return;
    if (!SendToShim(run, rank, op, signal)) return;
    rank.signal_sent = signal;
    // A stopped process takes it only when it goes on.
    if (signal == SIGTERM) (void)SendToShim(run, rank, op, SIGCONT);
  };
  for (auto& [rank, state] : run.ranks) send(state);
  if (run.setup) send(*run.setup);
}

// TERM to what a rank left, once: its process group has it already if the rank lived to get it.
void RunnerLoop::SendToLeft(AllocationRun& run) {
  if (!WaitsForLeft(run)) return;
  for (auto& [number, rank] : run.ranks) {
    if (!LeftSomething(rank) || rank.left_told) continue;
    const auto op = static_cast<std::uint32_t>(
        rank.signal_sent == SIGTERM ? shim::Op::kSignalOrphans : shim::Op::kSignalGroup);
    if (!SendToShim(run, rank, op, SIGTERM)) continue;
    (void)SendToShim(run, rank, op, SIGCONT);
    rank.signal_sent = SIGTERM;
    rank.left_told = true;
  }
}

// Of whom nothing is told but root: supervisors end by themselves, and what else is root's was
// handed the lock.
MayBeOwn RunnerLoop::WhoseOwn(const AllocationRun& run) const {
  if (run.account) return [uid = run.account->uid](std::uint32_t user) { return user == uid; };
  if (options_.account_of) return [](std::uint32_t user) { return user != 0; };
  return {};
}

// A supervisor that has not said yet who it is, too, leads to the job's processes. Whose those are
// must be known: a user can make any process of the machine hold the lock.
Holders RunnerLoop::WhatHoldersDo(const AllocationRun& run) const {
  return run.account || !options_.account_of ? Holders::kLead : Holders::kAlone;
}

bool RunnerLoop::Populated(const AllocationRun& run) const {
  if (run.cgroup.level() != Containment::kTree) return run.cgroup.RanksPopulated();
  const std::vector<int> spared = ShimPids(run);
  for (const int pid :
       FindOwn(run.dir.LockPath(), RootPids(run), WhoseOwn(run), WhatHoldersDo(run))) {
    if (std::find(spared.begin(), spared.end(), pid) == spared.end()) return true;
  }
  return false;
}

void RunnerLoop::KillRanks(AllocationRun& run) {
  LAUNCH_FAILPOINT("stop.4.kill");
  if (!run.killed_at) run.killed_at = options_.clock->Now();
  if (run.cgroup.level() != Containment::kTree) return run.cgroup.KillRanks();
  const auto kill = static_cast<std::uint32_t>(shim::Op::kKillAll);
  for (auto& [rank, state] : run.ranks) {
    if (state.shim) (void)SendToShim(run, state, kill, SIGKILL);
  }
  if (run.setup && run.setup->shim) (void)SendToShim(run, *run.setup, kill, SIGKILL);
  KillOwn(run.dir.LockPath(), RootPids(run), ShimPids(run), WhoseOwn(run), WhatHoldersDo(run));
}

void RunnerLoop::BeginProof(AllocationRun& run) {
  run.stop->proof_since = options_.clock->Now();
  const bool gpus = run.spec && !run.spec->gpus.empty();
  if (gpus && options_.ask_gpu_processes) options_.ask_gpu_processes();
}

// Empty = nothing of the job is left; whether its GPUs are free is asked of each.
std::string RunnerLoop::WhyNotEnded(AllocationRun& run) {
  if (Populated(run)) return "a process of the job is still there after SIGKILL";
  for (const auto& [rank, state] : run.ranks) {
    if (state.shim) return "the supervisor of rank " + std::to_string(rank) + " has not ended";
    if (Alive(state)) return "the end of rank " + std::to_string(rank) + " is not known yet";
  }
  if (run.setup && run.setup->shim) return "the supervisor of setup has not ended";
  if (run.cgroup.ShimsPopulated()) return "a supervisor of the job is still there";
  run.lock.reset();
  run.gpu_locks.clear();
  run.held_ports.reset();
  if (ProbeLock(run.dir.LockPath()) == LockState::kHeld) return "its allocation lock is held";
  // Of others nobody but their user, who can hold it for ever, has any use for that file.
  const bool behind_docker =
      !run.spec || (run.spec->container && run.spec->container->runtime == "docker");
  if (behind_docker && ProbeLock(run.dir.ContainerLockPath()) == LockState::kHeld) {
    return "a process in a container of the job is still there";
  }
  return {};
}

// Each GPU that is not free, and why: what is left of the job may use any of them.
HeldGpus RunnerLoop::FindHeld(const AllocationRun& run, const std::string& why_not_ended) const {
  HeldGpus held;
  if (!run.spec || run.spec->gpus.empty()) return held;
  const auto now = options_.gpu_processes ? options_.gpu_processes() : std::nullopt;
  for (const GpuUuid& gpu : run.spec->gpus) {
    if (run.stop->proved.contains(gpu) || HasAnother(run, gpu)) continue;
    std::string why = why_not_ended;
    if (why.empty() && ProbeLock(GpuLockPath(options_.lock_dir, gpu)) == LockState::kHeld) {
      why = "the lock of GPU " + gpu.value + " is held";
    }
    if (why.empty() && options_.gpu_processes) why = WhyDriverHolds(run, gpu, now);
    if (!why.empty()) held.emplace_back(gpu, std::move(why));
  }
  return held;
}

// Proved free before a restart of ours, and given to somebody since, whose end makes the proof
// anew.
bool RunnerLoop::HasAnother(const AllocationRun& run, const GpuUuid& gpu) const {
  return std::ranges::any_of(runs_, [&](const auto& entry) {
    const AllocationRun& other = *entry.second;
    const bool lives = other.phase == RunPhase::kAccepted || other.phase == RunPhase::kStarting ||
                       other.phase == RunPhase::kStarted;
    return &other != &run && lives && !other.stop && other.spec &&
           std::ranges::find(other.spec->gpus, gpu) != other.spec->gpus.end();
  });
}

// Not free when the driver lists a process that was not there before the allocation. A list from
// before the kill may lack what came later, and a driver that spoke of the GPU at the accept and
// says nothing of it now has failed: that is no empty list. Without any driver there never was
// one, and nothing to prove.
std::string RunnerLoop::WhyDriverHolds(const AllocationRun& run, const GpuUuid& gpu,
                                       const std::optional<GpuProcessSnapshot>& now) {
  const auto speaks_of = [&](const GpuProcessList& lists) {
    return std::ranges::any_of(lists, [&](const auto& list) { return list.first == gpu; });
  };
  if (speaks_of(run.gpu_processes) && !(now && speaks_of(now->lists))) {
    return "the driver does not list the processes of GPU " + gpu.value + " any more";
  }
  if (!now) return {};
  if (now->asked < run.stop->proof_since) {
    return "the driver has not listed its processes since the kill";
  }
  std::set<std::int64_t> before;
  for (const auto& [uuid, processes] : run.gpu_processes) {
    if (uuid != gpu) continue;
    for (const GpuProcess& process : processes) before.insert(process.pid);
  }
  for (const auto& [uuid, processes] : now->lists) {
    for (const GpuProcess& process : processes) {
      if (uuid != gpu || before.contains(process.pid)) continue;
      return "the driver still lists process " + std::to_string(process.pid) + " on GPU " +
             gpu.value;
    }
  }
  return {};
}

void RunnerLoop::Release(AllocationRun& run) {
  LAUNCH_FAILPOINT("stop.5.before");
  RemoveMarker(run);
  TellStart(run);
  // Nobody writes any more, and after this nobody looks.
  for (auto& [rank, log] : run.logs) (void)log.Look(options_.clock->WallNow());
  run.log_ends.clear();
  for (const auto& [rank, state] : run.ranks) {
    run.log_ends.emplace_back(rank, LogEnd(run.dir.RankPath(rank) + "/out"));
  }
  if (const auto written = run.dir.WriteReleased(run.log_ends); !written) {
    // The proof is repeated after a restart; nothing is lost but time.
    Notice("node.state_write_failed", &run, std::nullopt, written.error().message);
  }
  LAUNCH_FAILPOINT("stop.5.after");
  run.cgroup.Remove();
  run.phase = RunPhase::kReleased;
  CancelStaging(run);
  Tell(told::StopDone{.key = run.key, .held = {}, .log_ends = run.log_ends});
}

void RunnerLoop::NoteLadder(AllocationRun& run) {
  if (run.dropping) return;
  const StopRun& stop = *run.stop;
  // Without it the next agent begins the ladder again: nothing to tell anybody.
  (void)run.dir.WriteLadder({.cause = stop.cause,
                             .grace = stop.grace,
                             .step = static_cast<std::uint64_t>(stop.step),
                             .deadline = stop.deadline,
                             .signalled = stop.signalled});
}

// Where the agent before stood: ranks keep the time they were given, and no signal comes twice.
void RunnerLoop::GoOnClimbing(AllocationRun& run) {
  const auto ladder = run.dir.ReadLadder();
  if (!ladder || !run.spec) return;
  StopRun& stop = *run.stop;
  const auto step = static_cast<StopStep>(ladder->step);
  const bool waits = step == StopStep::kCheckpoint || step == StopStep::kTerminate;
  const bool asks = step == StopStep::kCheckpoint && run.spec->stop.signal.has_value();
  if (step == StopStep::kBegin || (step == StopStep::kCheckpoint && !asks)) return;
  stop.step = asks ? StopStep::kCheckpoint : StopStep::kTerminate;
  stop.deadline = waits ? ladder->deadline : options_.clock->Now();
  stop.signalled = ladder->signalled || !waits;
  if (!stop.signalled) return;
  const int signal = asks ? *run.spec->stop.signal : SIGTERM;
  for (auto& [rank, state] : run.ranks) state.signal_sent = signal;
}

void RunnerLoop::Climb(AllocationRun& run) {
  StopRun& stop = *run.stop;
  const BootTime now = options_.clock->Now();
  bool alive = run.setup && Alive(*run.setup);
  bool left = false;
  for (const auto& [rank, state] : run.ranks) {
    alive = alive || Alive(state);
    left = left || LeftSomething(state);
  }
  const bool waits = alive || (left && WaitsForLeft(run));
  const auto enter = [&](StopStep step, Millis time) {
    stop.step = step;
    stop.deadline = now + time;
    for (auto& [rank, state] : run.ranks) {
      state.signal_sent = 0;
      state.left_told = false;
    }
    if (run.setup) run.setup->signal_sent = 0;
    stop.signalled = false;
    NoteLadder(run);
  };
  const auto send = [&](shim::Op op, int signal) {
    SendToAll(run, static_cast<std::uint32_t>(op), signal);
    const bool all = std::ranges::all_of(run.ranks, [&](const auto& rank) {
      return !Alive(rank.second) || rank.second.signal_sent == signal;
    });
    if (all && !std::exchange(stop.signalled, true)) NoteLadder(run);
  };

  if (stop.step == StopStep::kBegin) {
    const bool ask =
        alive && run.spec && run.spec->stop.signal && WantsCheckpoint(stop.cause) && !stop.at_once;
    if (ask) {
      enter(StopStep::kCheckpoint, run.spec->stop.signal_before);
    } else {
      enter(StopStep::kTerminate, stop.grace);
    }
  }
  if (stop.step == StopStep::kCheckpoint) {
    send(shim::Op::kSignalRank, *run.spec->stop.signal);
    if (!waits || now >= stop.deadline) enter(StopStep::kTerminate, stop.grace);
  }
  if (stop.step == StopStep::kTerminate) {
    SendToLeft(run);
    send(shim::Op::kSignalGroup, SIGTERM);
    if (!waits || now >= stop.deadline) {
      enter(StopStep::kKill, Millis{0});
      stop.give_up = now + options_.proof_time;
      BeginProof(run);
    }
  }
  if (stop.step == StopStep::kKill || stop.step == StopStep::kProve) {
    // Again while anything is there: a shim that was just starting may still fork its rank.
    if (Populated(run)) KillRanks(run);
    stop.step = StopStep::kProve;
    const std::string why = WhyNotEnded(run);
    HeldGpus held = FindHeld(run, why);
    if (why.empty() && held.empty()) return run.dropping ? FinishDrop(run) : Release(run);
    if (now < stop.give_up || stop.told_held) return;
    stop.told_held = true;
    TellStart(run);
    if (run.dropping || held.empty()) {
      // Nothing to hold back from others, but the attempt cannot end: somebody must learn why.
      return Notice("node.stop_stuck", &run, std::nullopt,
                    "attempt " + ToString(run.key) +
                        " cannot be ended: " + (why.empty() ? held.front().second : why));
    }
    for (const GpuUuid& gpu : run.spec->gpus) {
      if (std::ranges::find(held, gpu, &HeldGpus::value_type::first) == held.end()) {
        stop.proved.insert(gpu);
      }
    }
    Tell(told::StopDone{.key = run.key, .held = std::move(held), .log_ends = {}});
  }
}

}  // namespace launch::agent
