// RunnerLoop: the orders of the agent core.
#include <fcntl.h>
#include <sys/inotify.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "agent/account/acting_as.h"
#include "agent/runner/account_files.h"
#include "agent/runner/cgroup_note.h"
#include "agent/runner/kept_logs.h"
#include "agent/runner/rank_stacks.h"
#include "agent/runner/resource_holders.h"
#include "agent/runner/runner_loop.h"
#include "agent/runner/staging.h"
#include "agent/shim/shim_spec.h"
#include "common/failpoint.h"
#include "common/free_space.h"
#include "common/pki.h"

namespace launch::agent {
namespace {

// Far less than the controller waits for an answer to an Accept: a refusal that comes too late
// would count as a failed start.
constexpr std::chrono::seconds kHolderSearch{3};
// For the driver's new list, when the free proof is made again.
constexpr Millis kAgainTime{3'000};

// kPreflightFailed: its ranks may not run here; another owner's may.
Result<std::optional<LocalAccount>> AccountToRunAs(
    const std::function<Result<LocalAccount>(const std::string& owner)>& account_of,
    const AllocationSpec& spec) {
  auto account = account_of(spec.user);
  auto may = account ? ActingAs::Try(*account) : Result<void>(Unexpected(account.error()));
  if (may && account->groups.size() > shim::kMaxGroups)
    may = Fail(ErrorCode::kPermissionDenied, "account " + account->name + " is in more than " +
                                                 std::to_string(shim::kMaxGroups) + " groups");
  if (may) return std::optional(std::move(*account));
  if (may.error().code == ErrorCode::kPermissionDenied) {
    may.error().code = ErrorCode::kPreflightFailed;
    if (!may.error().hint.empty()) may.error().message += "; " + may.error().hint;
  }
  return Unexpected(std::move(may).error());
}

}  // namespace

Result<void> RunnerLoop::CheckFreeSpace() const {
  LAUNCH_ASSIGN_OR_RETURN(const std::uint64_t free, FreeBytes(options_.state_dir));
  if (free >= options_.min_free_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "only " + std::to_string(free >> 20) + " MiB are free below " + options_.state_dir,
              "free space there, or set state_dir in agent.yaml to a larger disk");
}

void RunnerLoop::Do(order::Accept& order) {
  const Key key = order.spec.key;
  const AllocationRun* known = Find(key);
  if (known != nullptr && known->dropping) {
    return Tell(told::AcceptDone{
        .key = key,
        .ports = Fail(ErrorCode::kFailedPrecondition, "what its setup began has not ended yet")});
  }
  if (known != nullptr && known->phase != RunPhase::kDropped) {
    return Tell(told::AcceptDone{.key = key, .ports = known->ports});
  }
  if (accepting_.contains(key)) return;  // a repetition
  if (!options_.account_of) return AcceptAs(order, std::optional<LocalAccount>());
  const std::uint64_t number = ++stagings_;
  accepting_[key] = {.number = number, .drop = {}};
  RunBeside([order, number, account_of = options_.account_of](const auto&, auto& tasks) {
    tasks.PushAlways(AccountFound{order, number, AccountToRunAs(account_of, order.spec)});
  });
}

void RunnerLoop::Do(AccountFound& found) {
  const auto accepting = accepting_.find(found.order.spec.key);
  if (accepting == accepting_.end() || accepting->second.number != found.number) return;
  std::optional<order::Drop> drop = std::move(accepting->second.drop);
  accepting_.erase(accepting);
  AcceptAs(found.order, std::move(found.account));
  if (drop) Do(*drop);
}

void RunnerLoop::AcceptAs(const order::Accept& order, Result<std::optional<LocalAccount>> account) {
  const Key key = order.spec.key;
  auto ports = account ? AcceptNew(order.spec, order.digest, *account)
                       : Result<std::optional<PortBlock>>(Unexpected(std::move(account).error()));
  if (AllocationRun* run = ports ? nullptr : Find(key)) {
    const auto record = run->dir.ReadAccept();
    // Nothing is left of what never became durable; a lock we did not get is another's directory.
    if (run->lock && record && !*record) {
      run->cgroup.Remove();
      (void)options_.files->RemoveTree(run->dir.path());
    }
    runs_.erase(key);
  }
  const bool taken = !ports && (ports.error().code == ErrorCode::kUnavailable ||
                                ports.error().code == ErrorCode::kConflict);
  if (taken) return FindHolders(order, std::move(ports).error());
  Tell(told::AcceptDone{.key = key, .ports = std::move(ports)});
}

// Ports or GPUs that somebody else has: the refusal names who, in lines of its own.
void RunnerLoop::FindHolders(const order::Accept& order, Error refusal) {
  const Key key = order.spec.key;
  const std::uint64_t number = ++stagings_;
  accepting_[key] = {.number = number, .drop = {}};
  std::vector<std::string> locks;
  if (refusal.code == ErrorCode::kConflict) {
    for (const GpuUuid& gpu : order.spec.gpus) locks.push_back(GpuLockPath(options_.lock_dir, gpu));
  }
  const PortBlock ports{options_.port_first, options_.port_last - options_.port_first + 1};
  RunBeside([key, number, refusal = std::move(refusal), locks = std::move(locks), ports](
                const std::atomic<bool>& cancel, auto& tasks) mutable {
    const HolderSearch search{.cancel = cancel,
                              .until = std::chrono::steady_clock::now() + kHolderSearch};
    const std::vector<std::string> lines = refusal.code == ErrorCode::kUnavailable
                                               ? PortHolders(ports, search)
                                               : LockHolders(locks, search);
    for (const std::string& line : lines) refusal.message += "\n" + line;
    tasks.PushAlways(HoldersFound{key, number, std::move(refusal)});
  });
}

void RunnerLoop::Do(HoldersFound& found) {
  const auto accepting = accepting_.find(found.key);
  if (accepting == accepting_.end() || accepting->second.number != found.number) return;
  accepting_.erase(accepting);  // nothing is there for a drop that came meanwhile
  Tell(told::AcceptDone{.key = found.key, .ports = Unexpected(std::move(found.refusal))});
}

// What runs in a container: where its account keeps images, and the lock that what runs behind
// docker's daemon holds.
Result<void> RunnerLoop::FindImages(AllocationRun& run) const {
  if (!run.spec->container || !run.account) return {};
  LAUNCH_ASSIGN_OR_RETURN(run.images_dir, MakeImagesDir(run.dir, *run.account));
  if (run.spec->container->runtime != "docker") return {};
  return MakeContainerLock(run.dir, *run.account);
}

Result<std::optional<PortBlock>> RunnerLoop::AcceptNew(const AllocationSpec& spec,
                                                       const std::string& digest,
                                                       const std::optional<LocalAccount>& account) {
  LAUNCH_RETURN_IF_ERROR(CheckFreeSpace());
  LAUNCH_FAILPOINT("launch.3.before");
  AllocationRun& run = Make(spec.key, cgroups_);
  run.spec = account ? AtHome(spec, *account) : spec;
  run.account = account;
  LAUNCH_RETURN_IF_ERROR(run.dir.Create(spec.ranks));
  LAUNCH_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(run.dir.LockPath()));
  run.lock = std::move(lock);
  LAUNCH_ASSIGN_OR_RETURN(run.gpu_locks, TakeGpuLocks(options_.lock_dir, spec.gpus));
  if (spec.needs_ports) {
    LAUNCH_ASSIGN_OR_RETURN(HeldPorts held,
                            HoldPorts(options_.port_first, options_.port_last, next_port_));
    next_port_ = held.block.first + held.block.count;
    run.ports = held.block;
    run.held_ports = std::move(held);
  }
  AcceptRecord record{.spec_bytes = options_.codec.serialize(spec),
                      .digest = digest,
                      .boot_id = boot_id_,
                      .ports = run.ports,
                      .gpu_processes = {},
                      .gpus = spec.gpus,
                      .account = account};
  if (!spec.gpus.empty() && options_.gpu_processes) {
    record.gpu_processes = options_.gpu_processes().value_or(GpuProcessSnapshot{}).lists;
  }
  run.gpu_processes = record.gpu_processes;
  std::vector<Rank> ranks;
  for (const RankSpec& rank : spec.ranks) {
    ranks.push_back(rank.rank);
    run.ranks[rank.rank].rank = rank.rank;
  }
  std::vector<Rank> grouped = ranks;
  if (!spec.setup.empty()) grouped.push_back(kSetupRank);
  LAUNCH_RETURN_IF_ERROR(run.cgroup.Create(grouped, spec.memory_limit_bytes));
  LAUNCH_RETURN_IF_ERROR(NoteCgroups(*options_.files, run.dir.path(), cgroups_));
  LAUNCH_RETURN_IF_ERROR(run.dir.WriteFiles(spec.files));
  LAUNCH_RETURN_IF_ERROR(run.dir.WriteRankHook());
  if (account) {
    LAUNCH_RETURN_IF_ERROR(OpenAttempt(run.dir, ranks, *account));
    LAUNCH_RETURN_IF_ERROR(FindImages(run));
  }
  std::error_code ignored;
  std::filesystem::remove(run.dir.path() + "/dropped", ignored);
  LAUNCH_RETURN_IF_ERROR(run.dir.WriteAccept(record));
  LAUNCH_FAILPOINT("launch.3.after");
  return run.ports;
}

void RunnerLoop::Do(order::Start& order) {
  const Key key = order.go.key;
  AllocationRun* run = Find(key);
  if (run == nullptr || !run->spec || run->stop || run->phase == RunPhase::kDropped) {
    return Tell(told::StartDone{
        .key = key, .pids = {}, .failed = FailedToStart{"start", 0, "no such allocation here"}});
  }
  if (run->phase != RunPhase::kAccepted) return;  // a repetition; its end answers
  run->phase = RunPhase::kStarting;
  Result<void> written = run->dir.WriteFiles(order.go.late_files);
  if (written && run->account) written = OpenAttempt(run->dir, {}, *run->account);
  if (!written) return FailStart(*run, {"files", 0, written.error().message});
  run->lease_end = order.lease_end;
  const auto leased = order.lease_end ? run->dir.WriteLease(*order.lease_end) : Result<void>();
  if (!leased) return FailStart(*run, {"lease", 0, leased.error().message});
  FindRankCommands(*run, order);
}

// What cannot be written is no extension: the shims go by what they can read.
void RunnerLoop::Do(order::ExtendLease& order) {
  AllocationRun* run = Find(order.key);
  if (run == nullptr || run->phase == RunPhase::kReleased || run->phase == RunPhase::kDropped) {
    return;
  }
  const auto written = run->dir.WriteLease(order.end);
  if (!written && !run->lease_told) {
    Notice("node.state_write_failed", run, std::nullopt, written.error().message);
  }
  run->lease_told = !written;
}

void RunnerLoop::Do(order::StopAllocation& order) {
  accepting_.erase(order.key);
  AllocationRun* run = Find(order.key);
  if (run != nullptr && run->phase == RunPhase::kReleased) {
    return Tell(told::StopDone{.key = order.key, .held = {}, .log_ends = run->log_ends});
  }
  if (run == nullptr) {
    const auto unrecorded = unrecorded_.find(order.key);
    run = &Make(order.key, unrecorded == unrecorded_.end() ? cgroups_ : unrecorded->second);
    for (const Rank rank : run->dir.ListRanks()) run->ranks[rank].rank = rank;
  }
  run->dropping = false;  // whose end is told
  LAUNCH_FAILPOINT("stop.4.before");
  if (const auto written = run->dir.WriteTombstone({order.cause, ""}); !written) {
    Notice("node.state_write_failed", run, std::nullopt, written.error().message);
  }
  // For a restart that comes before the end; without it the processes tell, if any has the lock.
  if (unrecorded_.contains(order.key))
    (void)NoteCgroups(*options_.files, run->dir.path(), run->cgroup.host());
  LAUNCH_FAILPOINT("stop.4.tombstone");
  if (run->phase == RunPhase::kDropped) run->phase = RunPhase::kAccepted;
  const BootTime now = options_.clock->Now();
  const bool first = !run->stop;
  if (first) {
    run->stop = StopRun{.cause = order.cause, .grace = order.grace};
    GoOnClimbing(*run);
  }
  if (order.at_once && run->stop->step <= StopStep::kTerminate) {
    StopRun& stop = *run->stop;
    stop.at_once = true;
    stop.grace = std::min(stop.grace, order.grace);
    const bool asked = stop.step == StopStep::kCheckpoint;
    stop.deadline = asked ? now : std::min(stop.deadline, now + stop.grace);
  } else if (!first && run->stop->step <= StopStep::kTerminate && order.grace < run->stop->grace) {
    run->stop->grace = order.grace;
    run->stop->deadline = std::min(run->stop->deadline, now + order.grace);
  } else if (run->stop->step == StopStep::kProve) {
    run->stop->told_held = false;
    run->stop->give_up = now + kAgainTime;
    BeginProof(*run);
  }
  const StopStep step = run->stop->step;
  if (step == StopStep::kCheckpoint || step == StopStep::kTerminate) NoteLadder(*run);
  CancelStaging(*run);
  if (run->commands_due) FailStart(*run, {"start", 0, "it was stopped before it began"});
}

void RunnerLoop::Do(order::Drop& order) {
  if (const auto accepting = accepting_.find(order.key); accepting != accepting_.end()) {
    accepting->second.drop = order;
    return;
  }
  AllocationRun* run = Find(order.key);
  if (run == nullptr || run->phase != RunPhase::kAccepted) return;
  CancelStaging(*run);
  (void)options_.files->WriteDurable(run->dir.path() + "/dropped", order.why);
  if (run->stop) return;
  if (run->setup) {  // one kill proves nothing
    run->dropping = true;
    run->stop = StopRun{.cause = StopCause::kStale};
    return;
  }
  FinishDrop(*run);
}

void RunnerLoop::FinishDrop(AllocationRun& run) {
  run.cgroup.KillAll();
  RemoveMarker(run);
  run.setup.reset();
  run.cgroup.Remove();
  run.lock.reset();
  run.gpu_locks.clear();
  run.held_ports.reset();
  run.stop.reset();
  run.dropping = false;
  run.phase = RunPhase::kDropped;
}

// The marker's name is kept beside the record, so that a restart in between leaves no file behind.
std::string RunnerLoop::MarkerOf(const AllocationRun& run) const {
  const auto name = options_.files->Read(run.dir.path() + "/marker", 4096);
  return name && run.spec ? MarkerPath(*run.spec, *name) : std::string();
}

void RunnerLoop::RemoveMarker(const AllocationRun& run) {
  const std::string path = MarkerOf(run);
  if (path.empty()) return;
  RunBeside([path, account = run.account, key = run.key, number = run.marker_number](const auto&,
                                                                                     auto& tasks) {
    launch::agent::RemoveMarker(path, account);
    tasks.PushAlways(MarkerGone{key, number});
  });
}

void RunnerLoop::Do(MarkerGone& gone) {
  const AllocationRun* run = Find(gone.key);
  if (run == nullptr || run->marker_number != gone.number) return;
  std::error_code ignored;
  std::filesystem::remove(run->dir.path() + "/marker", ignored);
}

void RunnerLoop::Do(order::NoteAcked& order) {
  LAUNCH_FAILPOINT("exit.3.before");
  if (AllocationRun* run = Find(order.key)) run->dir.NoteAcked(order.rank);
  LAUNCH_FAILPOINT("exit.3.after");
}

void RunnerLoop::Do(order::Forget& order) {
  if (!TryForget(order.key)) unforgotten_.insert(order.key);
}

// The directory goes, the logs stay: `launch logs` reads them until retention takes them. False: it
// stays too, for they could not be moved.
bool RunnerLoop::TryForget(const Key& key) {
  const AllocationRun* run = Find(key);
  if (run != nullptr && run->phase != RunPhase::kReleased && run->phase != RunPhase::kDropped) {
    return true;
  }
  accepting_.erase(key);
  LAUNCH_FAILPOINT("exit.4.before");
  const AttemptDir dir(AllocationPath(options_.state_dir, key), *options_.files);
  const auto kept = KeepLogs(dir, KeptLogsPath(options_.state_dir, key), options_.clock->WallNow(),
                             *options_.files);
  if (!kept) {
    if (!unforgotten_.contains(key))
      Notice("node.state_write_failed", run, std::nullopt,
             "the logs of attempt " + ToString(key) + " stay in " + dir.path() +
                 " until they can be moved: " + kept.error().message);
    return false;
  }
  if (const auto copy = options_.files->Read(dir.CopyNotePath(), 4096)) NoteCopyUse(*copy);
  LAUNCH_FAILPOINT("exit.4.logs_kept");
  RemoveAside(dir.path(), ToString(key));
  runs_.erase(key);
  LAUNCH_FAILPOINT("exit.4.after");
  return true;
}

// A rank may leave any number of files behind: they are moved out of the way now and removed on a
// thread of their own, while the orders of other jobs are carried out.
void RunnerLoop::RemoveAside(const std::string& path, const std::string& name) {
  const std::string to = GonePath() + "/" + name + "-" + RandomHex(8);
  const bool moved =
      options_.files->MakeDirs(GonePath()) && ::rename(path.c_str(), to.c_str()) == 0;
  if (!moved) return (void)options_.files->RemoveTree(path);
  RemoveGone();
}

// Also what an agent that ended meanwhile had moved there. A slow disk must not end up with a
// thread for each attempt that was forgotten meanwhile.
void RunnerLoop::RemoveGone() {
  more_gone_ = removing_gone_;
  if (std::exchange(removing_gone_, true)) return;
  RunBeside([gone = GonePath()](const auto&, auto& tasks) {
    PosixFileSystem files;
    for (const std::string& name : files.List(gone).value_or(std::vector<std::string>()))
      (void)files.RemoveTree(gone + "/" + name);
    tasks.PushAlways(GoneRemoved{});
  });
}

void RunnerLoop::Do(GoneRemoved&) {
  removing_gone_ = false;
  if (more_gone_) RemoveGone();
}

// On a thread of its own: a process may take its time to answer.
void RunnerLoop::Do(order::CollectStacks& order) {
  AllocationRun* run = Find(order.key);
  if (run == nullptr || run->stop || run->collecting) return;
  std::vector<StacksWish> wishes;
  for (const auto& [rank, state] : run->ranks) {
    if (!state.started || state.end) continue;
    wishes.push_back({run->key, rank, state.pid, run->dir.StacksPath(rank), run->account});
  }
  run->collecting = true;
  RunBeside([told = options_.told, py_spy = options_.py_spy, wishes = std::move(wishes),
             key = run->key](const auto&, auto& tasks) {
    for (const StacksWish& wish : wishes) {
      told(told::StacksCollected{CollectStacks(wish, {.py_spy = py_spy})});
    }
    tasks.PushAlways(StacksDone{key});
  });
}

void RunnerLoop::Do(StacksDone& done) {
  if (AllocationRun* run = Find(done.key)) run->collecting = false;
}

}  // namespace launch::agent
