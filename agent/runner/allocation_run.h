// What the runner holds in memory about one allocation; rebuilt from disk and kernel at a restart.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/seams.h"
#include "agent/runner/attempt_dir.h"
#include "agent/runner/cgroup.h"
#include "agent/runner/file_lock.h"
#include "agent/runner/log_keeper.h"
#include "agent/runner/port_holder.h"
#include "common/clock.h"
#include "common/launch.h"
#include "common/unique_fd.h"

namespace launch::agent {

// One shim and its rank, or the shim of `setup` (rank kSetupRank).
struct RankRun {
  Rank rank = 0;
  bool spawned = false;
  UniqueFd shim;                 // pidfd while it lives
  int shim_pid = 0;              // spared by kills at level tree
  std::optional<int> shim_code;  // its exit code, when it was our child
  UniqueFd orphan;               // pidfd of a rank whose shim is gone
  bool orphan_told = false;
  bool started = false;
  bool changed = true;  // a record was closed since it was read
  std::int64_t pid = 0;
  std::map<std::string, std::uint64_t> limit_hits;  // as its start found them; process_limits.h
  std::optional<ExitReport> end;
  bool told = false;
  int signal_sent = 0;     // of the ladder's present step
  bool left_told = false;  // in that step: what it left has TERM, too
};

using HeldGpus = std::vector<std::pair<GpuUuid, std::string>>;  // and why

enum class StopStep { kBegin, kCheckpoint, kTerminate, kKill, kProve };

struct StopRun {
  StopCause cause = StopCause::kNone;
  Millis grace{0};
  StopStep step = StopStep::kBegin;
  BootTime deadline{};     // of the present step
  bool at_once = false;    // no time for the signal before TERM
  bool signalled = false;  // every rank has its signal
  BootTime give_up{};      // of the free proof
  BootTime proof_since{};  // an older list of the driver proves nothing
  bool told_held = false;
  // GPUs proved free when others were reported as held: from then on somebody else may have them.
  std::set<GpuUuid> proved;
};

enum class RunPhase { kAccepted, kStarting, kStarted, kReleased, kDropped };

struct AllocationRun {
  AllocationRun(const Key& of, AttemptDir at, const CgroupHost& host)
      : key(of), dir(std::move(at)), cgroup(host, of) {}

  Key key;
  AttemptDir dir;
  AllocationCgroup cgroup;
  std::optional<AllocationSpec> spec;   // absent: only known by its name
  std::optional<LocalAccount> account;  // that ranks run as; absent = the agent's own
  std::string images_dir;               // of that account
  RunPhase phase = RunPhase::kAccepted;
  // Held by the agent between accept and start; afterwards only by the shims and ranks.
  std::optional<FileLock> lock;
  std::vector<FileLock> gpu_locks;
  std::optional<HeldPorts> held_ports;
  std::optional<PortBlock> ports;
  GpuProcessList gpu_processes;  // before anything of ours
  std::map<Rank, RankRun> ranks;
  std::map<Rank, LogKeeper> logs;
  bool logs_kept = false;  // moved to the kept ones, while the attempt is still known
  bool start_told = false;
  std::optional<BootTime> commands_due;  // a start whose programs are still looked for
  std::uint64_t commands_number = 0;
  std::optional<BootTime> lease_end;
  bool lease_told = false;            // that it could not be written
  std::optional<BootTime> killed_at;  // first SIGKILL of ours to the whole allocation
  std::optional<StopRun> stop;
  bool collecting = false;  // where its ranks stand
  bool dropping = false;    // the ladder ends what `setup` began; then the allocation is dropped
  std::vector<std::pair<Rank, std::uint64_t>> log_ends;  // once released
  // Staging.
  std::optional<order::StageAllocation> staging;
  std::uint64_t staging_number = 0;
  std::shared_ptr<std::atomic<bool>> staging_cancel;
  std::uint64_t marker_number = 0;  // of the marker that is noted
  bool in_copy = false;  // the paths of `spec` are those of a copy of workdir on this node
  std::optional<RankRun> setup;
  BootTime setup_deadline{};
  bool setup_timed_out = false;
};

// Whether a process belongs to the allocation: it is in its control group or, where that cannot be
// found, holds its lock. The caller holds a pidfd of the process, so that its number stays its own.
bool IsOf(const AllocationRun& run, int pid);

// The same of a process with the number and the start time of a record of the allocation: where the
// kernel hides what it has open, the record is believed, for unknown is not gone.
bool IsOfByRecord(const AllocationRun& run, int pid);

// The environment that every rank of the allocation shares, for setup and checks.
inline const std::vector<EnvVar>& SharedEnv(const AllocationSpec& spec) {
  const static std::vector<EnvVar> kNone;
  return spec.ranks.empty() ? kNone : spec.ranks.front().env;
}

}  // namespace launch::agent
