// The messages of the agent stream as values: what both cores and the simulator speak.
// proto/node.proto is their wire form, proto/convert_node.h the only way between the two.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/diagnosis.h"
#include "common/exec.h"
#include "common/inventory.h"
#include "common/launch.h"
#include "common/stacks.h"

namespace launch {

// In each ToNode: the agent keeps the highest on disk and refuses lower incarnation or epoch.
struct Fence {
  std::uint64_t incarnation = 0;  // grows with a restore from backup
  std::uint64_t epoch = 0;        // grows durably with each start of a controller
  std::uint64_t revision = 0;     // commit that justifies the message
  friend auto operator<=>(const Fence&, const Fence&) = default;
  friend bool operator==(const Fence&, const Fence&) = default;
};

namespace from_node {  // agent -> controller

struct Hello {
  std::string version;
  MachineIdentity machine;
  std::string boot_id;
  std::string instance = {};  // random, of this life of the agent; empty: of an agent of before
  // Directory of control groups in which it looked for what runs; empty: in none, or not said.
  std::string cgroups = {};
  BootTime boot{};
  Fence seen;  // highest the agent ever obeyed
  NodeInventory inventory;
  // Ranks run as this account, so only jobs of its user may; absent: each as the job's owner.
  std::optional<UserName> account;
  std::vector<AllocationStatus> allocations;
  std::vector<Key> floors;  // highest attempt seen per job: accept or tombstone, until Forget
  std::vector<std::pair<GpuUuid, std::string>> held;  // quarantined GPUs with the reason
  friend bool operator==(const Hello&, const Hello&) = default;
};
struct Beat {
  std::uint64_t n = 0;
  BootTime boot{};
  std::int64_t pong_age_ms = 0;  // age of the last Pong: a node that cannot hear us is silent too
  friend bool operator==(const Beat&, const Beat&) = default;
};
struct Heard {  // a Pong came: said at once, so that the controller knows that we hear it
  std::uint64_t n = 0;
  friend bool operator==(const Heard&, const Heard&) = default;
};
struct Samples {
  BootTime boot{};
  std::vector<GpuSample> gpus;
  HostSample host;
  std::vector<RankSample> ranks;
  friend bool operator==(const Samples&, const Samples&) = default;
};
struct InventoryChanged {
  NodeInventory inventory;
  friend bool operator==(const InventoryChanged&, const InventoryChanged&) = default;
};
struct Accepted {
  Key key;
  std::string digest;
  std::optional<PortBlock> ports;  // held by rank 0's node
  bool leased = false;             // its supervisors end the ranks when the lease is over
  friend bool operator==(const Accepted&, const Accepted&) = default;
};
struct Refused {
  Key key;
  std::string digest;
  std::string stage;  // accept | stage | go
  std::string code;   // stale_attempt, gpu_busy, inventory_changed, disk_full, dropped ...
  std::string why;
  std::optional<Attempt> floor;    // highest attempt of the job seen here
  std::vector<GpuUuid> gpus = {};  // that it is about; empty: not said
  friend bool operator==(const Refused&, const Refused&) = default;
};
struct Staging {  // display only; latest wins
  Key key;
  std::string step;  // setup | check | reach | checkpoint
  std::string line;
  friend bool operator==(const Staging&, const Staging&) = default;
};
struct Ready {
  Key key;
  std::string digest;
  StagingFacts facts;
  friend bool operator==(const Ready&, const Ready&) = default;
};
struct Started {
  Key key;
  std::vector<std::pair<Rank, std::int64_t>> pids;
  friend bool operator==(const Started&, const Started&) = default;
};
struct RankExited {  // resent until ExitAck
  ExitReport report;
  friend bool operator==(const RankExited&, const RankExited&) = default;
};
struct Released {  // nothing of the allocation is left, but for the held GPUs
  Key key;
  std::vector<std::pair<GpuUuid, std::string>> held;  // GPU and why it is not free
  std::vector<std::pair<Rank, std::uint64_t>> log_ends;
  friend bool operator==(const Released&, const Released&) = default;
};
// Kinds of notices that agents make, as docs/events.md explains them. What an agent says under
// another name does not pass for an event of the controller (controller/core/node_claims.cc).
inline constexpr std::array<std::string_view, 10> kNoticeKinds = {
    "node.attempt_unreadable", "node.bad_message",        "node.log_disk_full", "node.logs_removed",
    "node.state_disk_full",    "node.state_write_failed", "node.stop_stuck",    "rank.log_capped",
    "rank.log_emptied",        "rank.supervisor_lost"};

struct Stacks {  // answer to CollectStacks, one a rank
  RankStacks stacks;
  friend bool operator==(const Stacks&, const Stacks&) = default;
};

struct Notice {      // becomes one event row
  std::string kind;  // one of kNoticeKinds
  std::optional<Key> key;
  std::optional<Rank> rank;
  std::string text;
  friend bool operator==(const Notice&, const Notice&) = default;
};

}  // namespace from_node

using FromNode =
    std::variant<from_node::Hello, from_node::Beat, from_node::Samples, from_node::InventoryChanged,
                 from_node::Accepted, from_node::Refused, from_node::Staging, from_node::Ready,
                 from_node::Started, from_node::RankExited, from_node::Released, from_node::Notice,
                 from_node::Stacks, from_node::Heard>;

namespace to_node {  // controller -> agent

struct Welcome {
  std::string cluster;
  std::int64_t beat_ms = 1000;
  std::int64_t silent_ms = 3500;
  std::int64_t samples_ms = 5000;
  friend bool operator==(const Welcome&, const Welcome&) = default;
};
struct Pong {
  std::uint64_t n = 0;
  bool wants_heard = false;  // to be answered with Heard, which older controllers do not read
  friend bool operator==(const Pong&, const Pong&) = default;
};
struct Prepare {
  AllocationSpec spec;
  std::string digest;  // SHA-256 (hex) of the spec's wire bytes as sent
  std::vector<std::pair<std::string, std::string>> secrets;  // never in spec, digest, files, logs
  std::string spec_bytes;  // wire form as planned and stored; empty: made from `spec` when sent
  // Set while reading: why `spec`, of which only the key is there then, cannot be obeyed. It is
  // answered like any other reason, because a closed stream would bring the same bytes again.
  std::string refused = {};
  friend bool operator==(const Prepare&, const Prepare&) = default;
};
// The second half of a full preflight, when all nodes are staged: they speak with each other, each
// by a program run by the job's interpreter in the environment of its ranks.
struct NetworkTest {
  std::uint64_t round = 0;  // another one is another test, with all nodes anew
  std::string address;      // of rank 0's node, as every other one reached it
  int port = 0;             // rank 0's; the test uses the two behind it
  int place = 0;            // of this node in the attempt
  int nodes = 0;
  std::vector<EnvVar> env;  // late values, as Go will give them
  friend bool operator==(const NetworkTest&, const NetworkTest&) = default;
};
struct Stage {
  Key key;
  std::string digest;
  bool write_marker = false;         // rank 0's node writes it, the others must see it
  std::string marker;                // name below workdir; empty = one node, no proof needed
  std::vector<std::string> masters;  // addresses of rank 0's node to probe, best first
  int master_port = 0;               // held there: refused = reachable, timeout = not
  bool find_checkpoint = false;
  std::optional<NetworkTest> network_test;  // then nothing else is looked at
  std::string refused = {};                 // as read: see Prepare
  bool use_snapshot = false;                // run from a copy of workdir, fetched first
  // The attempt before ran here a moment ago: only what it may have changed is looked at.
  bool again = false;
  friend bool operator==(const Stage&, const Stage&) = default;
};
struct Go {
  Key key;
  std::string digest;
  std::string master_address;
  int master_port = 0;
  std::vector<EnvVar> late_env;           // the same for every rank
  std::vector<GeneratedFile> late_files;  // hostfile ...
  std::string refused = {};               // as read: see Prepare
  friend bool operator==(const Go&, const Go&) = default;
};
struct Stop {  // repeated until Released; leaves a tombstone even for an unknown key
  Key key;
  StopCause cause = StopCause::kNone;
  Millis grace{0};
  friend bool operator==(const Stop&, const Stop&) = default;
};
struct ExitAck {
  Key key;
  Rank rank = 0;
  friend bool operator==(const ExitAck&, const ExitAck&) = default;
};
// A quarantined GPU: its proof is made again now, or, by `release`, an operator takes the reason
// back. What the kernel still shows (the GPU's lock, a process) refuses the next accept all the
// same.
struct Retest {
  GpuUuid gpu;
  bool release = false;
  friend bool operator==(const Retest&, const Retest&) = default;
};
struct Forget {  // the job is done with this attempt: the directory may go, logs by retention
  Key key;
  friend bool operator==(const Forget&, const Forget&) = default;
};

struct CollectStacks {  // the ranks of the attempt seem to hang: where do they stand?
  Key key;
  friend bool operator==(const CollectStacks&, const CollectStacks&) = default;
};

struct OpenExec {  // a user's command beside a rank: dial Node.Exec with this number
  Key key;
  Rank rank = 0;
  std::string exec;                  // 32 hex digits, drawn by the controller
  std::optional<JobCopy> copy = {};  // read from there: the rank does not run
  friend bool operator==(const OpenExec&, const OpenExec&) = default;
};

}  // namespace to_node

using ToNode = std::variant<to_node::Welcome, to_node::Pong, to_node::Prepare, to_node::Stage,
                            to_node::Go, to_node::Stop, to_node::ExitAck, to_node::Forget,
                            to_node::Retest, to_node::CollectStacks, to_node::OpenExec>;

// Envelope of the stream: `session` only grows; `seq` 0 = latest wins, may be dropped.
struct ToNodeEnvelope {
  Fence fence;
  std::uint64_t session = 0;
  ToNode body;
  friend bool operator==(const ToNodeEnvelope&, const ToNodeEnvelope&) = default;
};

}  // namespace launch
