// The agent core's view of the outside: what it is told and what it may order.
// The production shell (agent/main) and the simulator (tests/sim) implement the orders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/node_messages.h"

namespace launch::agent {

// ---- runner: owns attempt directories, locks, cgroups, shims, ports, logs of this node ----

// A stop that an earlier agent began, which goes on where it was.
struct FoundStop {
  StopCause cause = StopCause::kNone;
  Millis grace{0};
};

// What the runner found on disk and in the kernel at start, one per directory.
struct FoundAllocation {
  AllocationStatus status;
  std::string boot_id;      // of the accept; another than now: the node rebooted
  bool alive = false;       // allocation lock held or cgroup populated
  bool unreadable = false;  // hold its GPUs, name the file, decide nothing
  std::string path;
  std::string why;
  std::optional<AllocationSpec> spec;
  bool tombstone = false;
  std::optional<FoundStop> stop;      // of a tombstone; absent: where it stood was not noted
  std::optional<BootTime> lease_end;  // of a leased one that started; absent: it was lost
  std::vector<Rank> acked;  // the controller has their exit record; their status.exit is absent
};

struct RunnerState {
  Fence fence;
  std::vector<FoundAllocation> allocations;
  std::vector<Key> floors;
  std::string cgroups;  // directory in which it looked for what runs without a record; empty: none
};

namespace told {  // events of the agent core

struct LinkUp {  // TLS is up, the stream is open: say Hello
  std::uint64_t stream = 0;
};
struct LinkDown {
  std::uint64_t stream = 0;
  std::string why;
};
struct FromController {
  std::uint64_t stream = 0;
  ToNodeEnvelope envelope;
};
struct Inventory {  // of the probes; on start and on change
  NodeInventory inventory;
  std::vector<std::pair<GpuUuid, std::vector<GpuProcess>>> processes;
};
struct Sampled {
  from_node::Samples samples;
};
struct AcceptDone {  // answer to order::Accept
  Key key;
  Result<std::optional<PortBlock>> ports;
};
struct StageDone {
  Key key;
  StagingFacts facts;
};
struct StageProgress {
  Key key;
  std::string step;
  std::string line;
};
struct StartDone {  // every shim reported its rank's start, or the first failure
  Key key;
  std::vector<std::pair<Rank, std::int64_t>> pids;
  std::optional<FailedToStart> failed;
};
struct RankEnded {  // the exit record is durable on this node
  ExitReport report;
};
struct StopDone {  // the ladder ended: cgroup empty and locks free, or `held` says what is not
  Key key;
  std::vector<std::pair<GpuUuid, std::string>> held;
  std::vector<std::pair<Rank, std::uint64_t>> log_ends;
};
struct NodeNotice {
  from_node::Notice notice;
};
struct StacksCollected {  // answer to order::CollectStacks, one a rank
  RankStacks stacks;
};
struct Tick {};

}  // namespace told

using Told = std::variant<told::LinkUp, told::LinkDown, told::FromController, told::Inventory,
                          told::Sampled, told::AcceptDone, told::StageDone, told::StageProgress,
                          told::StartDone, told::RankEnded, told::StopDone, told::NodeNotice,
                          told::StacksCollected, told::Tick>;

namespace order {  // effects of the agent core

struct Send {
  std::uint64_t stream = 0;
  FromNode message;
};
struct CloseLink {
  std::uint64_t stream = 0;
  std::string why;
};
struct SaveFence {  // durable before anything that follows in the same list; see Act
  Fence fence;
};
struct Accept {  // take locks, write `accept` durably, hold ports; answered by AcceptDone
  AllocationSpec spec;
  std::string digest;
};
struct StageAllocation {  // setup, path checks, reachability, checkpoint search; StageDone
  to_node::Stage stage;
};
struct Start {  // spawn one shim per rank; StartDone, later RankEnded per rank
  to_node::Go go;
  std::vector<std::pair<std::string, std::string>> secrets;
  std::optional<BootTime> lease_end;  // the shims end their ranks then, whoever else is dead
};
struct ExtendLease {
  Key key;
  BootTime end{};
};
struct StopAllocation {  // tombstone, signal ladder, proof; idempotent; StopDone
  Key key;
  StopCause cause = StopCause::kNone;
  Millis grace{0};
  bool at_once = false;  // no more time for the signal before the end
};
struct Drop {  // an accepted allocation that never started: free locks and ports
  Key key;
  std::string why;
};
struct NoteAcked {  // losing the note only resends
  Key key;
  Rank rank = 0;
};
struct Forget {
  Key key;
};
struct CollectStacks {  // where the ranks stand, without disturbing them; StacksCollected per rank
  Key key;
};

struct OpenExec {  // dial the controller's Exec and run what it sends, or say why not
  Key key;
  Rank rank = 0;
  std::string exec;
  std::string refused;          // why not; empty: the rank runs here
  std::optional<JobCopy> copy;  // of an attempt that is over: read from there, whatever runs
};

}  // namespace order

using Order = std::variant<order::Send, order::CloseLink, order::SaveFence, order::Accept,
                           order::StageAllocation, order::Start, order::StopAllocation, order::Drop,
                           order::NoteAcked, order::Forget, order::ExtendLease,
                           order::CollectStacks, order::OpenExec>;

}  // namespace launch::agent
