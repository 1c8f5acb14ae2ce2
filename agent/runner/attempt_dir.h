// Names, formats and durable reading and writing of what one attempt keeps on this node's disk.
//
//   <state_dir>/allocations/J.N/     mode 0700
//     accept       AcceptRecord, durable before the answer: this is the fence
//     lock         flock on one open description, inherited by all shims and ranks
//     tombstone    the attempt may never start again
//     ladder       how far the stop has come
//     released     the free proof held, with the ends of the logs
//     acked        one line a rank, its number twice
//     lease        until when ranks run without word of the controller; its shims read it
//     container    flock of what runs behind a container daemon, held by the processes inside
//     cgroups      the control groups of its processes
//     copy         path of the copy of workdir that the ranks run in
//     files/       what the plan generated
//     rank.R/      start, exit, control (shim); out, err and their .index, .base (log_keeper.h);
//     progress.jsonl, error.json, processes.jsonl (of a launcher), stacks (of its Python processes)
//     rank.R/own/  where ranks run as another account: the last four, written by it
//     hook/        our sitecustomize.py, by which those answer
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/core/gpu_processes.h"
#include "agent/runner/rank_stacks.h"
#include "agent/shim/shim_record.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "common/inventory.h"
#include "common/launch.h"

namespace launch::agent {

struct AcceptRecord {
  std::string spec_bytes;  // as RunnerOptions::codec writes it
  std::string digest;
  std::string boot_id;
  std::optional<PortBlock> ports;
  GpuProcessList gpu_processes;  // on the allocation's GPUs before anything of ours
  std::vector<GpuUuid> gpus;     // again in plain, so that they can be held without the codec
  std::optional<LocalAccount> account;  // whose ranks they are; absent = the agent's own
  friend bool operator==(const AcceptRecord&, const AcceptRecord&) = default;
};

struct TombstoneRecord {
  StopCause cause = StopCause::kNone;
  std::string why;
  friend bool operator==(const TombstoneRecord&, const TombstoneRecord&) = default;
};

// How far the ladder of a stop has come, for an agent that goes on with it.
struct LadderRecord {
  StopCause cause = StopCause::kNone;
  Millis grace{0};
  std::uint64_t step = 0;  // StopStep
  BootTime deadline{};     // of the step
  bool signalled = false;  // every rank has the step's signal
  friend bool operator==(const LadderRecord&, const LadderRecord&) = default;
};

struct RankFiles {
  std::optional<shim::StartRecord> start;
  std::optional<shim::RankRecord> rank;
  shim::RecordState exit_state = shim::RecordState::kAbsent;
  shim::ExitRecord exit;  // when kValid
};

class AttemptDir {
 public:
  AttemptDir(std::string path, FileSystem& files) : path_(std::move(path)), files_(&files) {}

  const std::string& path() const { return path_; }
  std::string LockPath() const { return path_ + "/lock"; }
  // Names the copy of workdir that the ranks run in; absent: they run in place.
  std::string CopyNotePath() const { return path_ + "/copy"; }
  std::string ContainerLockPath() const { return path_ + "/container"; }
  std::string FilesPath() const { return path_ + "/files"; }
  // Directory of a rank; any negative number stands for `setup`.
  std::string RankPath(Rank rank) const {
    return rank < 0 ? path_ + "/setup" : path_ + "/rank." + std::to_string(rank);
  }

  std::string HookPath() const { return path_ + "/" + std::string(kRankHookDirectory); }
  // What a rank itself may write to: where it runs as another account, a directory of its own.
  std::string OwnPath(Rank rank) const;
  std::string MadeOwnPath(Rank rank) const { return RankPath(rank) + "/own"; }
  std::string StacksPath(Rank rank) const { return OwnPath(rank) + "/stacks"; }

  // Makes the directory, durable in its parent, with files/ and a rank.R/ for each rank.
  Result<void> Create(const std::vector<RankSpec>& ranks);
  Result<void> WriteAccept(const AcceptRecord& record);
  // Absent = there is no such file; DATA_LOSS = torn, with the path in the message.
  Result<std::optional<AcceptRecord>> ReadAccept() const;
  Result<void> WriteTombstone(const TombstoneRecord& record);
  Result<std::optional<TombstoneRecord>> ReadTombstone() const;
  // Writes the record without a sync: a host that goes down ends the ranks too.
  Result<void> WriteLadder(const LadderRecord& record);
  std::optional<LadderRecord> ReadLadder() const;  // absent also where it cannot be read
  Result<void> WriteReleased(const std::vector<std::pair<Rank, std::uint64_t>>& log_ends);
  Result<std::optional<std::vector<std::pair<Rank, std::uint64_t>>>> ReadReleased() const;
  Result<void> WriteFiles(const std::vector<GeneratedFile>& generated);
  // Overwrites the file in place, without a sync: a host that goes down ends the ranks too.
  Result<void> WriteLease(BootTime end);
  std::optional<BootTime> ReadLease() const;
  // The module by which Python processes say where they stand.
  Result<void> WriteRankHook() const;
  void NoteAcked(Rank rank);
  std::vector<Rank> ReadAcked() const;
  RankFiles ReadRank(Rank rank) const;
  // Ranks that have a directory, from the names.
  std::vector<Rank> ListRanks() const;

 private:
  std::string path_;
  FileSystem* files_;
};

// "12.3" -> key; nullopt for any other name.
std::optional<Key> ParseKey(std::string_view name);

std::string AllocationsPath(const std::string& state_dir);
std::string AllocationPath(const std::string& state_dir, const Key& key);
std::string KeptLogsPath(const std::string& state_dir, const Key& key);

}  // namespace launch::agent
