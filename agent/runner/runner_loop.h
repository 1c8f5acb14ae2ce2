// The runner's own thread: carries out orders one after another and watches what runs.
//
// It touches only what is the node's own: the state and lock directories, /proc and cgroups. What
// lies where a job has it (workdir, PATH, a home) or is asked of a directory service (accounts) may
// never answer, and all jobs of the node wait for this thread: a worker thread looks there
// (RunBeside) and posts what it found.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "agent/runner/allocation_run.h"
#include "agent/runner/cgroup.h"
#include "agent/runner/kept_logs.h"
#include "agent/runner/kernel_log.h"
#include "agent/runner/process.h"
#include "agent/runner/rank_commands.h"
#include "agent/runner/rank_runner.h"
#include "agent/runner/reserved_files.h"
#include "agent/runner/runner_options.h"
#include "common/mailbox.h"
#include "common/unique_fd.h"

namespace launch::agent {

// How often the runner looks at logs, and at what no event tells.
inline constexpr Millis kLook{1000};
// And how often it looks while nothing runs: kept logs age and the disk fills without us.
inline constexpr Millis kIdleLook{5'000};
// `setup` runs behind a shim like a rank, so that it is contained, limited and recorded alike.
inline constexpr Rank kSetupRank = -1;

struct StageOutcome {  // from a staging thread
  Key key;
  std::uint64_t number = 0;  // of the staging; an older one is not answered
  StagingFacts facts;
  std::string marker;                   // path of the one it wrote
  std::optional<LocalAccount> account;  // as whom
};
struct StageWaits {  // from a staging thread: for what, in words
  Key key;
  std::uint64_t number = 0;
  std::string line;
};
struct AccountFound {  // from a thread of its own: whom an accepted allocation runs as
  order::Accept order;
  std::uint64_t number = 0;
  Result<std::optional<LocalAccount>> account;
};
struct HoldersFound {  // from a thread of its own: who has what an allocation was refused for
  Key key;
  std::uint64_t number = 0;
  Error refusal;
};
struct CommandsFound {  // from a thread of its own, for a start
  Key key;
  std::uint64_t number = 0;
  std::vector<FoundCommand> commands;
};
struct SetupFound {  // from a thread of its own, before `setup`
  Key key;
  std::uint64_t number = 0;  // of the staging
  bool here = true;          // workdir is; else a copy may be taken
  FoundCommand command;
};
struct MarkerGone {  // from the thread that removed it
  Key key;
  std::uint64_t number = 0;
};
struct LogsSwept {  // from a thread of its own
  SweptLogs swept;
};
struct GoneRemoved {};  // from a thread of its own
struct StacksDone {     // from the thread that collected them
  Key key;
};
struct CopyOutcome {  // from a staging thread: where the copy of workdir lies
  Key key;
  std::uint64_t number = 0;
  Result<std::string> directory;
};
struct Quit {};

using RunnerTask =
    std::variant<order::Accept, order::StageAllocation, order::Start, order::StopAllocation,
                 order::Drop, order::NoteAcked, order::Forget, order::ExtendLease,
                 order::CollectStacks, AccountFound, HoldersFound, CommandsFound, SetupFound,
                 MarkerGone, StageWaits, StageOutcome, CopyOutcome, StacksDone, LogsSwept,
                 GoneRemoved, Quit>;

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
  void Do(AccountFound& found);
  void Do(HoldersFound& found);
  void Do(CommandsFound& found);
  void Do(SetupFound& found);
  void Do(MarkerGone& gone);
  void Do(StageWaits& waits);
  void Do(StageOutcome& outcome);
  void Do(StacksDone& done);
  void Do(LogsSwept& done);
  void Do(GoneRemoved&);
  void Do(CopyOutcome& outcome);
  void Do(Quit&) { quit_ = true; }
  Result<std::optional<PortBlock>> AcceptNew(const AllocationSpec& spec, const std::string& digest,
                                             const std::optional<LocalAccount>& account);
  void AcceptAs(const order::Accept& order, Result<std::optional<LocalAccount>> account);
  void FindHolders(const order::Accept& order, Error refusal);
  Result<void> FindImages(AllocationRun& run) const;
  Result<void> CheckFreeSpace() const;
  void FinishDrop(AllocationRun& run);
  std::string MarkerOf(const AllocationRun& run) const;
  void RemoveMarker(const AllocationRun& run);
  std::string GonePath() const { return options_.state_dir + "/gone"; }
  bool TryForget(const Key& key);
  void RemoveAside(const std::string& path, const std::string& name);
  void RemoveGone();

  // Starting; start_ranks.cc.
  UniqueFd CarryOutput(const std::string& path);  // Bug::kPipedOutput
  Result<void> SpawnShim(AllocationRun& run, RankRun& rank, const ShimWish& wish);
  CommandWish WishOf(const AllocationRun& run, Rank rank, ShimWish shim) const;
  std::optional<CommandWish> ImageWish(const AllocationRun& run) const;
  void FindRankCommands(AllocationRun& run, const order::Start& order);
  void FailStart(AllocationRun& run, FailedToStart why);
  void StartRank(AllocationRun& run, FoundCommand& command);
  void KeepWithinCap(AllocationRun& run, Rank rank);
  void StartSetup(AllocationRun& run, FoundCommand& command);
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
  void SweepLogs(bool low);
  void KeepSuperseded();
  void LookAtUnrecorded();
  void WatchShim(RankRun& rank);
  void EndRank(AllocationRun& run, RankRun& rank, ExitReport report);
  std::uint64_t LogBaseOf(AllocationRun& run, Rank rank);

  // Stopping; stop_ladder.cc.
  void Climb(AllocationRun& run);
  void NoteLadder(AllocationRun& run);
  void GoOnClimbing(AllocationRun& run);
  MayBeOwn WhoseOwn(const AllocationRun& run) const;
  Holders WhatHoldersDo(const AllocationRun& run) const;
  bool Populated(const AllocationRun& run) const;
  void KillRanks(AllocationRun& run);
  bool SendToShim(AllocationRun& run, RankRun& rank, std::uint32_t op, int signal);
  void SendToAll(AllocationRun& run, std::uint32_t op, int signal);
  void SendToLeft(AllocationRun& run);
  void BeginProof(AllocationRun& run);
  std::string WhyNotEnded(AllocationRun& run);
  HeldGpus FindHeld(const AllocationRun& run, const std::string& why_not_ended) const;
  bool HasAnother(const AllocationRun& run, const GpuUuid& gpu) const;
  static std::string WhyDriverHolds(const AllocationRun& run, const GpuUuid& gpu,
                                    const std::optional<GpuProcessSnapshot>& now);
  void Release(AllocationRun& run);

  // Restart; recover_allocations.cc.
  CgroupHost FindCgroups(const Key& key) const;
  std::optional<FoundAllocation> Read(const Key& key);
  FoundAllocation Adopt(AllocationRun& run, FoundAllocation found);
  void AdoptWithoutRecord(AllocationRun& run, FoundAllocation& found);
  void FindUnrecorded(RunnerState& state);
  bool Lives(const AllocationRun& run) const;
  bool LivesWithoutLock(const AllocationRun& run) const;
  void AdoptRank(AllocationRun& run, FoundAllocation& found, Rank rank);
  void AdoptSetup(AllocationRun& run);
  bool AdoptLate(AllocationRun& run, RankRun& rank);
  void TakeShim(AllocationRun& run, RankRun& rank, const shim::StartRecord& start);
  void TellUnrecorded(RunnerState& state, const Key& key, const CgroupHost& host, std::string why);
  void HoldAgain(AllocationRun& run, FoundAllocation& found);

  AllocationRun* Find(const Key& key);
  AllocationRun& Make(const Key& key, const CgroupHost& cgroups);
  void Tell(Told told) { options_.told(std::move(told)); }
  void Notice(std::string kind, const AllocationRun* run, std::optional<Rank> rank,
              std::string text);
  void Watch(const UniqueFd& fd);
  void WatchRank(const AllocationRun& run, Rank rank);
  RankRun* FindRank(const Key& key, Rank rank);
  bool TakeChanges();
  BootTime NextSweep(BootTime now) const;
  void CancelStaging(AllocationRun& run);
  void JoinFinished();

  // A worker may hang in a dead network file system: nobody waits for it, and it owns what it uses.
  struct WorkerState {
    std::atomic<bool> cancel{false};
    std::atomic<bool> done{false};
  };
  struct Worker {
    std::thread thread;
    std::shared_ptr<WorkerState> state;
  };
  struct Waiting {  // for a thread
    std::function<void()> run;
    std::shared_ptr<WorkerState> state;
  };
  std::shared_ptr<WorkerState> RunBeside(
      std::function<void(const std::atomic<bool>& cancel, Mailbox<RunnerTask>& tasks)> work);
  void StartWaiting();

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
  std::deque<Waiting> waiting_;  // as long as no thread can be made
  std::uint64_t stagings_ = 0;   // numbers what workers were asked, so that late answers are known
  struct Accepting {
    std::uint64_t number = 0;
    std::optional<order::Drop> drop;  // to follow
  };
  std::map<Key, Accepting> accepting_;  // until their account, or who is in their way, is known
  // Allocations found without a record, and their control groups; until they are gone or stopped.
  std::map<Key, CgroupHost> unrecorded_;
  // Only while allocations are taken over at the start: which processes hold each file below
  // `allocations` open.
  std::map<std::string, std::vector<int>> holders_;
  std::set<Key> unforgotten_;  // as long as their logs cannot be moved
  std::set<Key> unreadable_;   // found with one that is damaged, until then
  int next_port_ = 0;
  bool disk_low_ = false;
  bool sweeping_logs_ = false;
  bool removing_gone_ = false;  // one thread at a time
  bool more_gone_ = false;      // came after it listed them, or may have
  BootTime next_log_sweep_{};
  std::optional<SweepSeen> log_sweep_seen_;
  bool swept_in_vain_ = false;  // since the disk is nearly full: kept logs make no room
  std::map<int, std::pair<Key, Rank>> watched_;  // by inotify's number of the directory
  BootTime next_look_{};
  BootTime next_full_sweep_{};
  bool full_sweep_ = true;  // the present one reads the records of all ranks
  BootTime next_sweep_{};
  bool quit_ = false;
};

}  // namespace launch::agent
