// The runner's own thread: carries out orders one after another and watches what runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "agent/runner/allocation_run.h"
#include "agent/runner/cgroup.h"
#include "agent/runner/kernel_log.h"
#include "agent/runner/rank_runner.h"
#include "agent/runner/reserved_files.h"
#include "agent/runner/runner_options.h"
#include "common/mailbox.h"
#include "common/unique_fd.h"

namespace launch::agent {

// `setup` runs behind a shim like a rank, so that it is contained, limited and recorded alike.
inline constexpr Rank kSetupRank = -1;

struct StageOutcome {  // from a staging thread
  Key key;
  std::uint64_t number = 0;  // of the staging; an older one is not answered
  StagingFacts facts;
  std::string marker;                   // path of the one it wrote
  std::optional<LocalAccount> account;  // as whom
};
struct StacksDone {  // from the thread that collected them
  Key key;
};
struct CopyOutcome {  // from a staging thread: where the copy of workdir lies
  Key key;
  std::uint64_t number = 0;
  Result<std::string> directory;
};
struct Quit {};

struct ShimWish {  // what differs between a rank and `setup`
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::vector<int> cpus;
  bool with_ports = false;
};

using RunnerTask =
    std::variant<order::Accept, order::StageAllocation, order::Start, order::StopAllocation,
                 order::Drop, order::NoteAcked, order::Forget, order::ExtendLease,
                 order::CollectStacks, StageOutcome, CopyOutcome, StacksDone, Quit>;

// Everything but Post and SaveFence belongs to one thread: the caller of Recover until Run starts,
// then Run's.
class RunnerLoop {
 public:
  explicit RunnerLoop(RunnerOptions options);
  ~RunnerLoop();

  Result<RunnerState> Recover();
  void Run();  // until Quit; leaves ranks and shims running
  void Post(RunnerTask task) { tasks_->PushAlways(std::move(task)); }
  Result<void> SaveFence(const Fence& fence);  // from any thread
  const CgroupHost& cgroups() const { return cgroups_; }

 private:
  using Runs = std::map<Key, std::unique_ptr<AllocationRun>>;

  // Orders; runner_orders.cc.
  void Do(order::Accept& order);
  void Do(order::StageAllocation& order);
  void Do(order::Start& order);
  void Do(order::StopAllocation& order);
  void Do(order::Drop& order);
  void Do(order::NoteAcked& order);
  void Do(order::Forget& order);
  void Do(order::ExtendLease& order);
  void Do(order::CollectStacks& order);
  void Do(StageOutcome& outcome);
  void Do(StacksDone& done);
  void Do(CopyOutcome& outcome);
  void Do(Quit&) { quit_ = true; }
  Result<std::optional<PortBlock>> AcceptNew(const AllocationSpec& spec, const std::string& digest);
  Result<std::optional<LocalAccount>> AccountFor(const AllocationSpec& spec) const;
  Result<void> FindImages(AllocationRun& run) const;
  Result<void> CheckFreeSpace() const;
  void FinishDrop(AllocationRun& run);
  void RemoveMarker(AllocationRun& run);
  std::string GonePath() const { return options_.state_dir + "/gone"; }
  void RemoveAside(const std::string& path, const std::string& name);
  void RemoveGone();

  // Starting; start_ranks.cc.
  UniqueFd CarryOutput(const std::string& path);  // Bug::kPipedOutput
  Result<void> SpawnShim(AllocationRun& run, RankRun& rank, const ShimWish& wish);
  void StartRank(AllocationRun& run, const RankSpec& spec, const order::Start& order);
  void StartSetup(AllocationRun& run);
  void StartStaging(AllocationRun& run, std::optional<int> setup_exit, std::string setup_tail);

  // Staging; stage_workdir.cc.
  void BeginStaging(AllocationRun& run);
  void StartFetch(AllocationRun& run);
  void EnterCopy(AllocationRun& run, const std::string& directory);
  void LookForCopy(AllocationRun& run);

  // Watching; watch_ranks.cc.
  void Sweep();
  void SweepRank(AllocationRun& run, RankRun& rank);
  void SweepOrphan(AllocationRun& run, RankRun& rank);
  void SweepSetup(AllocationRun& run);
  void TellStart(AllocationRun& run);
  void LookAtLogs();
  void LookAtUnrecorded();
  void WatchShim(RankRun& rank);
  void EndRank(AllocationRun& run, RankRun& rank, ExitReport report);

  // Stopping; stop_ladder.cc.
  void Climb(AllocationRun& run);
  bool Populated(const AllocationRun& run) const;
  void KillRanks(AllocationRun& run);
  bool SendToShim(AllocationRun& run, RankRun& rank, std::uint32_t op, int signal);
  void SendToAll(AllocationRun& run, std::uint32_t op, int signal);
  void BeginProof(AllocationRun& run);
  std::string WhyNotFree(AllocationRun& run);
  std::string WhyDriverNotFree(const AllocationRun& run) const;
  void Release(AllocationRun& run);

  // Restart; recover_allocations.cc.
  std::optional<FoundAllocation> Read(const Key& key);
  FoundAllocation Adopt(AllocationRun& run, FoundAllocation found);
  void AdoptWithoutRecord(AllocationRun& run, FoundAllocation& found);
  void FindUnrecorded(RunnerState& state);
  bool Lives(const AllocationRun& run) const;
  bool LivesWithoutLock(const AllocationRun& run) const;
  void AdoptRank(AllocationRun& run, FoundAllocation& found, Rank rank);
  void HoldAgain(AllocationRun& run, FoundAllocation& found);

  AllocationRun* Find(const Key& key);
  AllocationRun& Make(const Key& key);
  void Tell(Told told) { options_.told(std::move(told)); }
  void Notice(std::string kind, const AllocationRun* run, std::optional<Rank> rank,
              std::string text);
  void Watch(const UniqueFd& fd);
  int NextTimeoutMs();
  void Drain();
  void CancelStaging(AllocationRun& run);
  void JoinFinished();

  // A staging thread may hang in a dead network file system: nobody waits for it.
  struct WorkerState {
    std::atomic<bool> cancel{false};
    std::atomic<bool> done{false};
  };
  struct Worker {
    std::thread thread;
    std::shared_ptr<WorkerState> state;
  };

  RunnerOptions options_;  // `files` is `files_`
  ReservedFiles files_;
  CgroupHost cgroups_;
  const std::string boot_id_;
  std::shared_ptr<Mailbox<RunnerTask>> tasks_;  // shared with staging threads
  UniqueFd epoll_;
  UniqueFd inotify_;
  std::optional<FileLock> owner_lock_;
  Runs runs_;
  KernelLog kernel_log_;
  std::vector<Worker> workers_;
  std::uint64_t stagings_ = 0;
  std::set<Key> unrecorded_;  // found without a record, until they are gone or stopped
  std::set<Key> unreadable_;  // found with one that is damaged, until then
  int next_port_ = 0;
  bool disk_low_ = false;
  BootTime next_look_{};
  bool quit_ = false;
};

}  // namespace launch::agent
