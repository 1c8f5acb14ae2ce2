// What the agent's threads know of each other: ranks that run, and processes on its GPUs.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/agent_core.h"
#include "agent/progress/rank_sampler.h"
#include "agent/runner/attempt_dir.h"
#include "common/file_system.h"

namespace launch::agent {

// What other threads may ask about what the loop knows.
class SharedFacts {
 public:
  void SetRunning(std::vector<RunningRank> running) {
    const std::lock_guard lock(mutex_);
    for (RunningRank& rank : running_) {
      const bool runs = std::any_of(running.begin(), running.end(), [&](const RunningRank& other) {
        return other.key == rank.key && other.rank == rank.rank;
      });
      if (!runs) ended_.push_back(std::move(rank));
    }
    running_ = std::move(running);
  }
  // The ranks that run, and those that ended since the last call.
  std::pair<std::vector<RunningRank>, std::vector<RunningRank>> TakeRanks() {
    const std::lock_guard lock(mutex_);
    return {running_, std::exchange(ended_, {})};
  }
  void SetProcesses(GpuProcessSnapshot processes) {
    const std::lock_guard lock(mutex_);
    processes_ = std::move(processes);
  }
  // Processes on GPUs, without those that have ended since the driver was asked.
  std::optional<GpuProcessSnapshot> Processes(const std::string& proc_root) const {
    const std::lock_guard lock(mutex_);
    auto processes = processes_;
    if (!processes) return processes;
    for (auto& [gpu, list] : processes->lists)
      std::erase_if(list, [&](const GpuProcess& process) {
        return ::access((proc_root + "/" + std::to_string(process.pid)).c_str(), F_OK) != 0;
      });
    return processes;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<RunningRank> running_;             // guarded by mutex_
  std::vector<RunningRank> ended_;               // guarded by mutex_
  std::optional<GpuProcessSnapshot> processes_;  // guarded by mutex_
};

inline std::string OwnOf(const std::string& attempt_dir, Rank rank) {
  PosixFileSystem files;
  return AttemptDir(attempt_dir, files).OwnPath(rank);
}

inline std::vector<RunningRank> RunningOf(const AgentState& state, const std::string& state_dir) {
  std::vector<RunningRank> running;
  for (const auto& [key, allocation] : state.allocations) {
    const bool may_run = allocation.phase == Phase::kStarting ||
                         allocation.phase == Phase::kStarted ||
                         allocation.phase == Phase::kStopping;
    if (!may_run || !allocation.spec) continue;
    for (const auto& [rank, rank_state] : allocation.ranks) {
      if (!rank_state.started || rank_state.exit || rank_state.acked) continue;
      running.push_back(
          {.key = key,
           .rank = rank,
           .pid = rank_state.pid,
           .directory = AllocationPath(state_dir, key) + "/rank." + std::to_string(rank),
           .own = OwnOf(AllocationPath(state_dir, key), rank),
           .progress_regex = allocation.spec->progress_regex});
    }
  }
  return running;
}

}  // namespace launch::agent
