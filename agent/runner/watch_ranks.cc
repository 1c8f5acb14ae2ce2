// RunnerLoop: what became of each rank, from its files, its shim and the kernel.
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/runner/exit_report.h"
#include "agent/runner/flight_files.h"
#include "agent/runner/launcher_processes.h"
#include "agent/runner/process.h"
#include "agent/runner/process_limits.h"
#include "agent/runner/runner_loop.h"
#include "common/failpoint.h"
#include "common/free_space.h"
#include "common/planted.h"

namespace launch::agent {
namespace {

constexpr Millis kLogSweep{3'600'000};
constexpr Millis kLogSweepWhenLow{30'000};
// Of attempts whose logs went, in words of their own.
constexpr std::size_t kMostNamed = 20;

bool NeverRan(const ExitReport& report) {
  return std::holds_alternative<FailedToStart>(report.cause);
}

// The controller has every end: none is told again, with the length of a log that went.
bool IsAcked(const AllocationRun& run) {
  const std::vector<Rank> acked = run.dir.ReadAcked();
  return std::ranges::all_of(run.ranks, [&](const auto& rank) {
    return !rank.second.end || std::ranges::binary_search(acked, rank.first);
  });
}

}  // namespace

bool IsOf(const AllocationRun& run, int pid) {
  return run.cgroup.Contains(pid) || HoldsOpen(pid, run.dir.LockPath());
}

bool IsOfByRecord(const AllocationRun& run, int pid) {
  // Asked first: a shim shows its files once its rank runs.
  const bool hides = HidesFiles(pid) && (IsOfUser(pid, ::geteuid()) ||
                                         (run.account && IsOfUser(pid, run.account->uid)));
  return IsOf(run, pid) || hides;
}

void RunnerLoop::WatchShim(RankRun& rank) {
  if (rank.shim) Watch(rank.shim);
}

void RunnerLoop::EndRank(AllocationRun& run, RankRun& rank, ExitReport report) {
  const bool failed = !Succeeded(report) && !NeverRan(report);
  if (!rank.end && failed && report.our_signals.empty()) {
    report.kernel_lines = kernel_log_.Of({.started = report.started,
                                          .ended = report.ended,
                                          .pid = rank.pid,
                                          .cgroup = run.cgroup.LogName()});
    for (std::string& line : ProcessLimitHitsSince(rank.limit_hits))
      report.kernel_lines.push_back(std::move(line));
  }
  // Also of those that were ended because another one failed: they tell who was behind.
  if (!rank.end && failed) {
    for (std::string& line : FlightLinesIn(run.dir.OwnPath(rank.rank)))
      report.kernel_lines.push_back(std::move(line));
  }
  if (!rank.end && !NeverRan(report)) {
    for (const LauncherProcess& process : LauncherProcessesIn(run.dir.OwnPath(rank.rank)))
      report.kernel_lines.push_back(LineOf(process));
  }
  if (!rank.end) rank.end = std::move(report);
  rank.orphan.Reset();
}

void RunnerLoop::SweepRank(AllocationRun& run, RankRun& rank) {
  if (!rank.spawned && !(run.stop && AdoptLate(run, rank))) return;
  // The order matters: what the files say after the shim has gone is final.
  bool shim_gone = !rank.shim;
  if (!shim_gone && HasEnded(rank.shim)) {
    siginfo_t info{};
    const auto pidfd = static_cast<id_t>(rank.shim.get());
    if (::waitid(static_cast<idtype_t>(P_PIDFD), pidfd, &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0 && info.si_code == CLD_EXITED) {
      rank.shim_code = info.si_status;
    }
    rank.shim.Reset();
    shim_gone = true;
  }
  if (rank.end) return;
  if (!std::exchange(rank.changed, false) && !full_sweep_ && !shim_gone) return;
  const RankFiles files = run.dir.ReadRank(rank.rank);
  if (files.rank && rank.pid == 0) {
    const bool told = rank.started;  // without it: the shim was between its two writes
    rank.started = true;
    rank.pid = files.rank->pid;
    if (told) Tell(told::StartDone{.key = run.key, .pids = {{rank.rank, rank.pid}}, .failed = {}});
  }
  ExitEvidence evidence{.key = run.key, .rank = rank.rank, .killed_at = run.killed_at};
  if (run.stop) evidence.killed_why = run.stop->cause;
  const BootTime now = options_.clock->Now();
  const BootTime began = files.rank ? BootMs(files.rank->started_boot_ms) : now;
  if (files.exit_state == shim::RecordState::kValid) {
    evidence.memory = run.cgroup.Memory(rank.rank);
    evidence.log_base = LogBaseOf(run, rank.rank);
    return EndRank(run, rank, ReportOf(files.exit, evidence));
  }
  if (!shim_gone) return;
  evidence.memory = run.cgroup.Memory(rank.rank);
  if (files.exit_state == shim::RecordState::kTorn) {
    return EndRank(run, rank, ReportUnknown(evidence, boot_id_, "record torn", began, now));
  }
  if (!files.start) {
    ExitReport report = ReportUnknown(evidence, boot_id_, {}, now, now);
    const int error_number = rank.shim_code.value_or(0);
    report.cause = FailedToStart{
        shim::StageName(shim::Stage::kRecord), error_number,
        error_number != 0
            ? ErrnoError("prepare " + run.dir.RankPath(rank.rank), error_number).message
            : "the shim ended before it had written anything"};
    return EndRank(run, rank, std::move(report));
  }
  SweepOrphan(run, rank);
}

// The shim is gone and left no record: the rank may run on, but its end will not be proved.
void RunnerLoop::SweepOrphan(AllocationRun& run, RankRun& rank) {
  const RankFiles files = run.dir.ReadRank(rank.rank);
  if (!rank.orphan && files.rank) {
    const int pid = static_cast<int>(files.rank->pid);
    UniqueFd process = OpenPidFd(pid);
    const bool same = StartTicksOf(pid) == files.rank->start_ticks && IsOfByRecord(run, pid);
    if (process && (same || Planted(Bug::kRememberedPid))) {
      rank.orphan = std::move(process);
      Watch(rank.orphan);
    }
  }
  const bool alive =
      rank.orphan ? !HasEnded(rank.orphan) : !files.rank && run.cgroup.RankPopulated(rank.rank);
  if (alive) {
    if (!rank.orphan_told) {
      Notice("rank.supervisor_lost", &run, rank.rank,
             "the supervisor of rank " + std::to_string(rank.rank) + " was killed; the rank " +
                 (run.spec && run.spec->lease ? "is ended too, for its lease is unguarded"
                                              : "runs on, its end will be unknown"));
    }
    rank.orphan_told = true;
    // Nobody else would end it when its lease is over.
    if (run.spec && run.spec->lease) {
      (void)SendToShim(run, rank, static_cast<std::uint32_t>(shim::Op::kSignalGroup), SIGKILL);
    }
    return;
  }
  ExitEvidence evidence{.key = run.key,
                        .rank = rank.rank,
                        .memory = run.cgroup.Memory(rank.rank),
                        .killed_at = run.killed_at};
  const BootTime now = options_.clock->Now();
  ExitReport report = ReportUnknown(
      evidence, boot_id_, rank.orphan_told ? "supervisor killed" : "supervisor and rank gone",
      files.rank ? BootMs(files.rank->started_boot_ms) : now, now);
  (void)LogBaseOf(run, rank.rank);
  report.log_end = LogEnd(run.dir.RankPath(rank.rank) + "/out");
  EndRank(run, rank, std::move(report));
}

// With what the job cut since the last look.
std::uint64_t RunnerLoop::LogBaseOf(AllocationRun& run, Rank rank) {
  if (const auto log = run.logs.find(rank); log != run.logs.end()) log->second.Settle();
  return ReadLogBase(run.dir.RankPath(rank) + "/out");
}

// StartDone comes first, then the ends, so that the core never hears of an end before a start.
void RunnerLoop::TellStart(AllocationRun& run) {
  if (run.phase == RunPhase::kStarting && !run.start_told) {
    told::StartDone done{.key = run.key, .pids = {}, .failed = {}};
    bool all = true;
    for (const auto& [rank, state] : run.ranks) {
      if (state.started) {
        done.pids.emplace_back(rank, state.pid);
      } else if (state.end && NeverRan(*state.end)) {
        if (!done.failed) done.failed = std::get<FailedToStart>(state.end->cause);
      } else if (state.end) {
        if (!done.failed) done.failed = FailedToStart{"start", 0, Describe(state.end->cause)};
      } else {
        all = false;
      }
    }
    if (!all && !done.failed) return;
    run.start_told = true;
    run.phase = RunPhase::kStarted;
    Tell(std::move(done));
  }
  for (auto& [rank, state] : run.ranks) {
    if (!state.end || state.told) continue;
    state.told = true;
    LAUNCH_FAILPOINT("exit.2.before");
    Tell(told::RankEnded{*state.end});
  }
}

void RunnerLoop::Sweep() {
  const BootTime now = options_.clock->Now();
  full_sweep_ = now >= next_full_sweep_;
  if (full_sweep_) next_full_sweep_ = now + kLook;
  for (auto& [key, run] : runs_) {
    if (run->phase == RunPhase::kReleased || run->phase == RunPhase::kDropped) continue;
    for (auto& [rank, state] : run->ranks) SweepRank(*run, state);
    if (run->setup) SweepSetup(*run);
    if (run->commands_due && now >= *run->commands_due) {
      FailStart(*run, {"start", 0,
                       "the file systems of workdir and of the job's PATH do not answer here"});
    }
    TellStart(*run);
    if (run->stop) Climb(*run);
  }
  JoinFinished();
  StartWaiting();
}

// The controller forgets attempts when their job is done, which may take months. Logs of those that
// a later one followed here are kept until then like those of jobs that ended: no longer than there
// is room.
void RunnerLoop::KeepSuperseded() {
  for (auto next = runs_.begin(); next != runs_.end();) {
    AllocationRun& run = *next->second;
    const bool superseded = ++next != runs_.end() && next->first.job == run.key.job;
    if (!superseded || run.logs_kept || run.phase != RunPhase::kReleased || !IsAcked(run)) continue;
    run.logs_kept = KeepLogs(run.dir, KeptLogsPath(options_.state_dir, run.key),
                             options_.clock->WallNow(), *options_.files)
                        .has_value();
    if (run.logs_kept)
      std::erase_if(run.logs, [](const auto& log) { return log.first != kSetupRank; });
  }
}

// On a thread of its own: files of many gigabytes take their time to go.
void RunnerLoop::SweepLogs(bool low) {
  const BootTime now = options_.clock->Now();
  if (low && !disk_low_) next_log_sweep_ = now;
  if (sweeping_logs_ || now < next_log_sweep_) return;
  next_log_sweep_ = now + (low ? kLogSweepWhenLow : kLogSweep);
  sweeping_logs_ = true;
  LogSweep sweep{.state_dir = options_.state_dir,
                 .keep = options_.keep_logs,
                 .min_free_bytes = options_.min_free_bytes,
                 .known = unforgotten_,
                 .before = log_sweep_seen_};
  KeepSuperseded();
  for (const auto& [key, run] : runs_) {
    if (!run->logs_kept) sweep.known.insert(key);
  }
  RunBeside([sweep = std::move(sweep), wall = options_.clock->WallNow(), now](
                const std::atomic<bool>& cancel, auto& tasks) {
    PosixFileSystem files;
    tasks.PushAlways(LogsSwept{SweepKeptLogs(sweep, wall, now, files, cancel)});
  });
}

void RunnerLoop::Do(LogsSwept& done) {
  sweeping_logs_ = false;
  swept_in_vain_ = !done.swept.room;
  log_sweep_seen_ = std::move(done.swept.seen);
  const std::vector<RemovedLogs>& removed = done.swept.removed;
  const std::size_t named = std::min(removed.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) {
    const RemovedLogs& one = removed[i];
    Notice("node.logs_removed", nullptr, std::nullopt,
           "the logs of attempt " + ToString(one.key) + " were removed " + one.why);
  }
  if (named == removed.size()) return;
  Notice("node.logs_removed", nullptr, std::nullopt,
         "and those of " + std::to_string(removed.size() - named) + " more: " + options_.state_dir +
             "/logs/removed names them");
}

void RunnerLoop::LookAtLogs() {
  const BootTime now = options_.clock->Now();
  if (now < next_look_) return;
  next_look_ = now + kLook;
  LookAtUnrecorded();
  const bool low = !CheckFreeSpace().has_value();
  if (!low) swept_in_vain_ = false;
  const bool shrink = low && swept_in_vain_;  // kept logs go before those of jobs that run
  for (auto& [key, run] : runs_) {
    if (run->phase == RunPhase::kDropped) continue;
    const bool ended = run->phase == RunPhase::kReleased;
    for (auto& [rank, log] : run->logs) {
      // The log of a rank that filled the disk and ended must still make room: the controller may
      // share that disk, and can note the end only then.
      std::uint64_t punched = ended ? 0 : log.Look(options_.clock->WallNow());
      if (shrink) punched += log.Shrink();
      const bool setup = rank == kSetupRank;
      const std::optional<Rank> named = setup ? std::nullopt : std::optional(rank);
      if (const std::uint64_t lost = log.TakeEmptied(); lost > 0) {
        Notice("rank.log_emptied", run.get(), named,
               std::string(setup ? "setup" : "the job") + " emptied its own log of " +
                   std::to_string(lost) +
                   " bytes, and may do so again: `> /dev/stderr` and `> /dev/stdout` cut what they "
                   "are; write `>&2`, or `>> /dev/stderr`");
      }
      if (punched == 0) continue;
      Notice("rank.log_capped", run.get(), named,
             std::to_string(punched >> 20) + " MiB in the middle of the log " +
                 (setup ? "of setup " : "") + "were dropped (" +
                 (shrink ? "disk nearly full)" : "cap)"));
    }
  }
  if (low && !disk_low_) {
    Notice("node.log_disk_full", nullptr, std::nullopt,
           "little space is left below " + options_.state_dir + "; no new allocations");
  }
  if (files_.TakeSpent()) {
    Notice("node.state_disk_full", nullptr, std::nullopt,
           "no space was left below " + options_.state_dir +
               "; what was kept back is in use, so that jobs can still be stopped");
  }
  SweepLogs(low);
  std::erase_if(unforgotten_, [&](const Key& key) { return TryForget(key); });
  if (const auto free = FreeBytes(options_.state_dir))
    files_.Restore(*free, options_.min_free_bytes);
  disk_low_ = low;
}

}  // namespace launch::agent
