// RunnerLoop: the orders of the agent core.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>

#include "agent/runner/runner_loop.h"

namespace launch::agent {

Result<void> RunnerLoop::CheckFreeSpace() const {
  struct statvfs info{};
  if (::statvfs(options_.state_dir.c_str(), &info) != 0) {
    return FailErrno("statvfs " + options_.state_dir, errno);
  }
  const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
  if (free >= options_.min_free_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "only " + std::to_string(free >> 20) + " MiB are free below " + options_.state_dir,
              "free space there, or set state_dir in agent.yaml to a larger disk");
}

void RunnerLoop::Do(order::Accept& order) {
  const Key key = order.spec.key;
  const AllocationRun* known = Find(key);
  if (known != nullptr && known->phase != RunPhase::kDropped) {
    return Tell(told::AcceptDone{.key = key, .ports = known->ports});
  }
  auto ports = AcceptNew(order.spec, order.digest);
  if (!ports) runs_.erase(key);
  Tell(told::AcceptDone{.key = key, .ports = std::move(ports)});
}

Result<std::optional<PortBlock>> RunnerLoop::AcceptNew(const AllocationSpec& spec,
                                                       const std::string& digest) {
  LAUNCH_RETURN_IF_ERROR(CheckFreeSpace());
  AllocationRun& run = Make(spec.key);
  run.spec = spec;
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
                      .gpus = spec.gpus};
  if (!spec.gpus.empty() && options_.gpu_processes) {
    record.gpu_processes = options_.gpu_processes().value_or(GpuProcessList{});
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
  LAUNCH_RETURN_IF_ERROR(run.dir.WriteFiles(spec.files));
  std::error_code ignored;
  std::filesystem::remove(run.dir.path() + "/dropped", ignored);
  if (const auto written = run.dir.WriteAccept(record); !written) {
    run.cgroup.Remove();
    (void)options_.files->RemoveTree(run.dir.path());  // the fence was never durable
    return Unexpected(written.error());
  }
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
  if (const auto written = run->dir.WriteFiles(order.go.late_files); !written) {
    run->start_told = true;
    run->phase = RunPhase::kStarted;
    return Tell(told::StartDone{
        .key = key, .pids = {}, .failed = FailedToStart{"files", 0, written.error().message}});
  }
  for (const RankSpec& rank : run->spec->ranks) StartRank(*run, rank, order);
  // From here on only shims and ranks hold them: an agent restart changes nothing.
  run->lock.reset();
  run->gpu_locks.clear();
  run->held_ports.reset();
}

void RunnerLoop::Do(order::StopAllocation& order) {
  AllocationRun* run = Find(order.key);
  if (run != nullptr && run->phase == RunPhase::kReleased) {
    return Tell(told::StopDone{.key = order.key, .held = {}, .log_ends = run->log_ends});
  }
  if (run == nullptr) {
    run = &Make(order.key);
    for (const Rank rank : run->dir.ListRanks()) run->ranks[rank].rank = rank;
  }
  if (const auto written = run->dir.WriteTombstone({order.cause, ""}); !written) {
    Notice("node.state_write_failed", run, std::nullopt, written.error().message);
  }
  if (run->phase == RunPhase::kDropped) run->phase = RunPhase::kAccepted;
  const BootTime now = options_.clock->Now();
  if (!run->stop) {
    run->stop = StopRun{.cause = order.cause, .grace = order.grace};
  } else if (run->stop->step <= StopStep::kTerminate && order.grace < run->stop->grace) {
    run->stop->grace = order.grace;
    run->stop->deadline = std::min(run->stop->deadline, now + order.grace);
  } else if (run->stop->step == StopStep::kProve) {
    run->stop->told_held = false;
  }
  if (const auto worker = workers_.find(order.key); worker != workers_.end()) {
    *worker->second.cancel = true;
  }
  run->staging.reset();
}

void RunnerLoop::Do(order::Drop& order) {
  AllocationRun* run = Find(order.key);
  if (run == nullptr || run->phase != RunPhase::kAccepted) return;
  if (const auto worker = workers_.find(order.key); worker != workers_.end()) {
    *worker->second.cancel = true;
  }
  run->staging.reset();
  (void)options_.files->WriteDurable(run->dir.path() + "/dropped", order.why);
  run->cgroup.KillAll();  // a `setup` in progress
  run->setup.reset();
  run->cgroup.Remove();
  run->lock.reset();
  run->gpu_locks.clear();
  run->held_ports.reset();
  run->phase = RunPhase::kDropped;
}

void RunnerLoop::Do(order::NoteAcked& order) {
  if (AllocationRun* run = Find(order.key)) run->dir.NoteAcked(order.rank);
}

// The directory goes, the logs stay: `launch logs` reads them until retention takes them.
void RunnerLoop::Do(order::Forget& order) {
  AllocationRun* run = Find(order.key);
  if (run != nullptr && run->phase != RunPhase::kReleased && run->phase != RunPhase::kDropped) {
    return;
  }
  const AttemptDir dir(AllocationPath(options_.state_dir, order.key), *options_.files);
  const std::string kept = KeptLogsPath(options_.state_dir, order.key);
  std::error_code ignored;
  for (const Rank rank : dir.ListRanks()) {
    const std::string to = kept + "/rank." + std::to_string(rank);
    std::filesystem::create_directories(to, ignored);
    for (const char* const name : {"/out", "/err", "/out.index"}) {
      std::filesystem::rename(dir.RankPath(rank) + name, to + name, ignored);
    }
  }
  (void)options_.files->RemoveTree(dir.path());
  runs_.erase(order.key);
}

}  // namespace launch::agent
