// RunnerLoop: what is found on disk and in the kernel at start, and how it is taken over.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "agent/runner/account_files.h"
#include "agent/runner/cgroup_note.h"
#include "agent/runner/exit_report.h"
#include "agent/runner/fence_file.h"
#include "agent/runner/process.h"
#include "agent/runner/process_limits.h"
#include "agent/runner/runner_loop.h"
#include "agent/runner/small_files.h"
#include "common/free_space.h"
#include "common/planted.h"

namespace launch::agent {
namespace {

// A shim that an agent was just spawning when it was killed shares its descriptors until execve:
// the lock may outlive that agent by a moment.
Result<FileLock> TakeOwnerLock(const std::string& state_dir) {
  constexpr int kTries = 40;
  constexpr useconds_t kPause = 50'000;
  auto lock = FileLock::Take(state_dir + "/owner.lock");
  for (int i = 0; i < kTries && !lock && lock.error().code == ErrorCode::kConflict; ++i) {
    ::usleep(kPause);
    lock = FileLock::Take(state_dir + "/owner.lock");
  }
  return lock;
}

FoundAllocation WithoutRecord(const std::string& state_dir, const Key& key, std::string why) {
  FoundAllocation found;
  found.status.key = key;
  found.alive = true;
  found.unreadable = true;
  found.path = AllocationPath(state_dir, key);
  found.why = std::move(why);
  return found;
}

}  // namespace

Result<RunnerState> RunnerLoop::Recover() {
  FileSystem& files = *options_.files;
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(options_.state_dir));
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(AllocationsPath(options_.state_dir)));
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(options_.lock_dir));
  if (options_.account_of) {
    LAUNCH_RETURN_IF_ERROR(CheckLockDir(options_.lock_dir));
    LAUNCH_RETURN_IF_ERROR(OpenStateDir(files, options_.state_dir));
  }
  auto owner = TakeOwnerLock(options_.state_dir);
  if (!owner) {
    return Fail(owner.error().code, "another agent uses " + options_.state_dir,
                "give each agent of a host its own state_dir");
  }
  owner_lock_.emplace(std::move(*owner));
  // The agent before has ended by now.
  cgroups_ = ClaimAgain({options_.cgroup_name, options_.containment, options_.cgroup_root},
                        std::move(cgroups_));

  if (const auto free = FreeBytes(options_.state_dir))
    files_.Restore(*free, options_.min_free_bytes);
  if (Exists(GonePath())) RemoveGone();
  RemoveProbeCgroups(cgroups_);
  RunnerState state;
  LAUNCH_ASSIGN_OR_RETURN(state.fence, ReadFence(files, options_.state_dir));
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files.List(AllocationsPath(options_.state_dir)));
  std::map<JobId, Attempt> floors;
  holders_ = OpenBelow(AllocationsPath(options_.state_dir));
  for (const std::string& name : names) {
    const auto key = ParseKey(name);
    if (!key) continue;
    if (auto found = Read(*key)) {
      Attempt& floor = floors[key->job];
      floor = std::max(floor, key->attempt);
      state.allocations.push_back(std::move(*found));
    }
  }
  for (const auto& [job, attempt] : floors) state.floors.push_back({job, attempt});
  FindUnrecorded(state);
  holders_.clear();
  return state;
}

// What runs here although its directory is gone: in a group of ours, or with a lock from there in
// whatever group an earlier installation of this node put it.
void RunnerLoop::FindUnrecorded(RunnerState& state) {
  // Without the claim they are those of another agent that lives, with a state_dir of its own.
  const bool looks = cgroups_.claim != nullptr;
  if (looks) state.cgroups = cgroups_.kill_root;
  for (const Key& key : looks ? ListCgroups(cgroups_) : std::vector<Key>()) {
    if (Exists(AllocationPath(options_.state_dir, key))) continue;
    const AllocationCgroup cgroup(cgroups_, key);
    if (cgroup.AnyPopulated()) {
      TellUnrecorded(state, key, cgroups_, "processes run in its cgroup");
    } else {
      cgroup.Remove();
    }
  }
  const std::string allocations = AllocationsPath(options_.state_dir);
  for (const auto& [path, pids] : holders_) {
    const std::string name = path.substr(allocations.size() + 1);
    const auto key = ParseKey(name.substr(0, name.find('/')));
    if (!key || name != ToString(*key) + "/lock" || unrecorded_.contains(*key)) continue;
    if (Exists(AllocationPath(options_.state_dir, *key))) continue;
    TellUnrecorded(state, *key, CgroupsOfProcesses(cgroups_, pids, *key).value_or(CgroupHost{}),
                   "processes hold its lock");
  }
}

void RunnerLoop::TellUnrecorded(RunnerState& state, const Key& key, const CgroupHost& host,
                                std::string why) {
  unrecorded_.emplace(key, host);
  state.allocations.push_back(
      WithoutRecord(options_.state_dir, key, std::move(why) + ", but there is no record of it"));
}

// Where the processes of a recorded attempt are, whatever the groups of this agent are by now. What
// nothing is left of may be anywhere: then it is ours.
CgroupHost RunnerLoop::FindCgroups(const Key& key) const {
  if (AllocationCgroup(cgroups_, key).AnyPopulated()) return cgroups_;
  const std::string path = AllocationPath(options_.state_dir, key);
  const std::optional<CgroupHost> noted = NotedCgroups(*options_.files, path);
  if (noted && AllocationCgroup(*noted, key).AnyPopulated()) return *noted;
  // They were started in none; those they are in may be of the job that this agent runs in.
  if (noted && noted->level == Containment::kTree) return *noted;
  if (const auto held = holders_.find(path + "/lock"); held != holders_.end()) {
    if (auto host = CgroupsOfProcesses(cgroups_, held->second, key)) return *host;
    if (!noted) return {};  // they were started without any
  }
  return noted.value_or(cgroups_);
}

// How they ended nobody wrote down; that they are gone can be seen.
void RunnerLoop::LookAtUnrecorded() {
  std::erase_if(unrecorded_, [&](const auto& entry) {
    const auto& [key, host] = entry;
    if (Find(key) != nullptr) return true;  // it is being stopped: the ladder tells its end
    const AllocationCgroup cgroup(host, key);
    const std::string lock = AllocationPath(options_.state_dir, key) + "/lock";
    const bool lives =
        host.level == Containment::kTree ? !FindOwn(lock, {}).empty() : cgroup.AnyPopulated();
    if (lives) return false;
    cgroup.Remove();
    Tell(told::StopDone{.key = key, .held = {}, .log_ends = {}});
    return true;
  });
  std::erase_if(unreadable_, [&](const Key& key) {
    AllocationRun* run = Find(key);
    if (run == nullptr || run->stop) return true;
    const bool told = !run->ranks.empty() && std::ranges::all_of(run->ranks, [](const auto& rank) {
      return rank.second.end.has_value();
    });
    if (told) return true;  // the controller knows, and stops it
    if (Lives(*run)) return false;
    order::StopAllocation proof{.key = key, .cause = StopCause::kStale, .grace = Millis{0}};
    Do(proof);  // nothing is there to be ended: it only proves that
    return true;
  });
}

bool RunnerLoop::Lives(const AllocationRun& run) const {
  return ProbeLock(run.dir.LockPath()) == LockState::kHeld || run.cgroup.AnyPopulated() ||
         LivesWithoutLock(run);
}

bool RunnerLoop::LivesWithoutLock(const AllocationRun& run) const {
  return run.cgroup.level() == Containment::kTree &&
         ProbeLock(run.dir.LockPath()) == LockState::kMissing &&
         !FindOwn(run.dir.LockPath(), {}).empty();
}

// Absent = the directory meant nothing and is gone.
std::optional<FoundAllocation> RunnerLoop::Read(const Key& key) {
  AllocationRun& run = Make(key, FindCgroups(key));
  FoundAllocation found;
  found.status.key = key;
  found.path = run.dir.path();
  found.alive = Lives(run) && !Planted(Bug::kUncheckedRestart);
  if (found.alive && run.cgroup.host().kill_root != cgroups_.kill_root)
    (void)NoteCgroups(*options_.files, found.path, run.cgroup.host());  // for `exec`
  const auto unreadable = [&](const Error& error) {
    found.unreadable = true;
    found.why = error.message;
    AdoptWithoutRecord(run, found);
    return found;
  };
  const auto tombstone = run.dir.ReadTombstone();
  if (!tombstone) return unreadable(tombstone.error());
  found.tombstone = tombstone->has_value();
  if (const auto ladder = run.dir.ReadLadder(); ladder && found.tombstone)
    found.stop = FoundStop{ladder->cause, ladder->grace};
  const auto accept = run.dir.ReadAccept();
  if (!accept) return unreadable(accept.error());
  if (!*accept) {
    if (found.tombstone && !found.alive) {
      run.cgroup.Remove();
      run.phase = RunPhase::kReleased;
      found.status.phase = AllocationPhase::kReleased;
      return found;
    }
    if (found.alive) {
      return unreadable(Error{ErrorCode::kDataLoss, "it runs, but has no accept record", {}, {}});
    }
    run.cgroup.Remove();
    runs_.erase(key);  // ended before the fence was durable: it never was
    (void)options_.files->RemoveTree(found.path);
    return std::nullopt;
  }
  const AcceptRecord& record = **accept;
  found.boot_id = record.boot_id;
  found.status.digest = record.digest;
  found.status.ports = record.ports;
  found.status.gpus = record.gpus;
  found.lease_end = run.lease_end = run.dir.ReadLease();
  run.ports = record.ports;
  run.gpu_processes = record.gpu_processes;
  if (record.boot_id != boot_id_) found.alive = false;
  auto spec = options_.codec.parse(record.spec_bytes);
  if (!spec) return unreadable(spec.error());
  // As it was accepted, whatever the node's settings and accounts say now.
  run.account = record.account;
  run.spec = run.account ? AtHome(*spec, *run.account) : *spec;
  if (const auto found_images = FindImages(run); !found_images)
    return unreadable(found_images.error());
  LookForCopy(run);
  found.spec = std::move(*spec);
  return Adopt(run, found);
}

// What was accepted cannot be read; that its ranks began and how they end stands in files of their
// own. Nothing is ended for it.
void RunnerLoop::AdoptWithoutRecord(AllocationRun& run, FoundAllocation& found) {
  found.acked = run.dir.ReadAcked();
  const std::vector<Rank> ranks = run.dir.ListRanks();
  for (const Rank rank : ranks) {
    const RankFiles files = run.dir.ReadRank(rank);
    if (found.boot_id.empty() && files.start) found.boot_id = files.start->boot_id;
  }
  for (const Rank rank : ranks) {
    if (rank != kSetupRank) AdoptRank(run, found, rank);
  }
  if (found.alive) AdoptSetup(run);
  const bool any = std::ranges::any_of(found.status.ranks, &RankStatus::started);
  if (any) run.phase = RunPhase::kStarted;
  run.start_told = any;
  unreadable_.insert(run.key);
}

FoundAllocation RunnerLoop::Adopt(AllocationRun& run, FoundAllocation found) {
  found.acked = run.dir.ReadAcked();
  for (const RankSpec& rank : run.spec->ranks) AdoptRank(run, found, rank.rank);
  if (found.alive) AdoptSetup(run);
  const bool any = std::ranges::any_of(found.status.ranks, &RankStatus::started);
  run.phase = any ? RunPhase::kStarted : RunPhase::kAccepted;
  run.start_told = any;
  found.status.phase = any ? AllocationPhase::kStarted : AllocationPhase::kAccepted;
  const auto released = run.dir.ReadReleased();
  if (!found.alive && released && *released) {
    run.cgroup.Remove();
    run.phase = RunPhase::kReleased;
    run.log_ends = **released;
    found.status.phase = AllocationPhase::kReleased;
  } else if (!found.alive && Exists(run.dir.path() + "/dropped")) {
    run.cgroup.Remove();
    run.phase = RunPhase::kDropped;
    found.status.phase = AllocationPhase::kDropped;
  } else if (!found.alive && !any && !found.tombstone && found.boot_id == boot_id_) {
    HoldAgain(run, found);
  }
  return found;
}

void RunnerLoop::TakeShim(AllocationRun& run, RankRun& rank, const shim::StartRecord& start) {
  const int pid = static_cast<int>(start.shim_pid);
  UniqueFd shim = OpenPidFd(pid);
  // The number alone proves nothing: start time and membership must agree behind the pidfd.
  if (!shim || StartTicksOf(pid) != start.shim_start_ticks || !IsOfByRecord(run, pid)) return;
  rank.shim = std::move(shim);
  rank.shim_pid = pid;
  rank.limit_hits = ProcessLimitHits(rank.pid > 0 ? rank.pid : pid);
  WatchShim(rank);
  WatchRank(run, rank.rank);
}

// Without control groups what `setup` started is found below its supervisor alone. Its end is told
// to nobody: a `setup` that outlived its agent is stopped, not gone on with.
void RunnerLoop::AdoptSetup(AllocationRun& run) {
  if (!Exists(run.dir.RankPath(kSetupRank))) return;
  run.setup.emplace();
  run.setup->rank = kSetupRank;
  run.setup_deadline = run.spec ? options_.clock->Now() + run.spec->setup_timeout : BootTime::max();
  (void)AdoptLate(run, *run.setup);
}

// What was just beginning when this agent looked has written who supervises it since. The core has
// said already that it did not start.
bool RunnerLoop::AdoptLate(AllocationRun& run, RankRun& rank) {
  const RankFiles files = run.dir.ReadRank(rank.rank);
  if (rank.end || !files.start || files.start->boot_id != boot_id_) return false;
  rank.spawned = true;
  rank.told = true;
  TakeShim(run, rank, *files.start);
  KeepWithinCap(run, rank.rank);
  return true;
}

void RunnerLoop::AdoptRank(AllocationRun& run, FoundAllocation& found, Rank number) {
  RankRun& rank = run.ranks[number];
  rank.rank = number;
  const RankFiles files = run.dir.ReadRank(number);
  const bool same_boot = found.boot_id == boot_id_;
  rank.spawned = files.start.has_value();
  rank.started = files.start.has_value();
  if (files.rank) rank.pid = files.rank->pid;
  if (same_boot && files.start) {
    TakeShim(run, rank, *files.start);
    KeepWithinCap(run, number);
  }
  ExitEvidence evidence{.key = run.key,
                        .rank = number,
                        .memory = run.cgroup.Memory(number),
                        .log_base = LogBaseOf(run, number)};
  const BootTime now = options_.clock->Now();
  if (files.exit_state == shim::RecordState::kValid) {
    EndRank(run, rank, ReportOf(files.exit, evidence));
  } else if (files.exit_state == shim::RecordState::kTorn && !rank.shim) {
    EndRank(run, rank, ReportUnknown(evidence, found.boot_id, "record torn", now, now));
  } else if (files.start && !same_boot) {
    EndRank(run, rank, ReportUnknown(evidence, found.boot_id, "node rebooted", now, now));
  } else if (files.start && !found.alive) {
    EndRank(run, rank,
            ReportUnknown(evidence, found.boot_id, "supervisor and rank gone", now, now));
  }
  rank.told = rank.end.has_value();  // the state that Recover returns tells it
  const bool acked =
      std::ranges::find(found.acked, number) != found.acked.end() || Planted(Bug::kLostExit);
  found.status.ranks.push_back({.rank = number,
                                .started = rank.started,
                                .pid = rank.pid,
                                .exit = acked ? std::nullopt : rank.end});
}

// Accepted and not started: this process takes the locks and ports that the last one held.
void RunnerLoop::HoldAgain(AllocationRun& run, FoundAllocation& found) {
  const auto hold = [&]() -> Result<void> {
    if (run.cgroup.host().kill_root != cgroups_.kill_root) {  // nothing is in it yet
      run.cgroup.Remove();
      run.cgroup = AllocationCgroup(cgroups_, run.key);
      LAUNCH_RETURN_IF_ERROR(NoteCgroups(*options_.files, run.dir.path(), cgroups_));
    }
    LAUNCH_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(run.dir.LockPath()));
    run.lock = std::move(lock);
    LAUNCH_ASSIGN_OR_RETURN(run.gpu_locks, TakeGpuLocks(options_.lock_dir, run.spec->gpus));
    std::vector<Rank> grouped;
    for (const RankSpec& rank : run.spec->ranks) grouped.push_back(rank.rank);
    if (!run.spec->setup.empty()) grouped.push_back(kSetupRank);
    LAUNCH_RETURN_IF_ERROR(run.cgroup.Create(grouped, run.spec->memory_limit_bytes));
    if (run.ports) {
      LAUNCH_ASSIGN_OR_RETURN(HeldPorts ports, HoldBlock(*run.ports));
      run.held_ports = std::move(ports);
    }
    return {};
  };
  if (const auto held = hold(); !held) {
    order::Drop drop{run.key, held.error().message};
    Do(drop);
    found.status.phase = AllocationPhase::kDropped;
    found.why = held.error().message;
  }
}

}  // namespace launch::agent
