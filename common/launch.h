// What one attempt runs on one node, and what came of it: the values between controller and agent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/job.h"

namespace launch {

enum class StartKind { kDirect, kPerNode };  // one process per rank by us, or one launcher per node

struct EnvVar {
  std::string name;
  std::string value;
  friend auto operator<=>(const EnvVar&, const EnvVar&) = default;
  friend bool operator==(const EnvVar&, const EnvVar&) = default;
};

struct GeneratedFile {  // written below the attempt's directory on the node
  std::string name;     // no '/'
  std::string bytes;
  friend bool operator==(const GeneratedFile&, const GeneratedFile&) = default;
};

struct RankSpec {
  Rank rank = 0;
  int local_rank = 0;
  // argv[0] absolute. An empty element is replaced by the resolved interpreter (see
  // interpreter_of).
  std::vector<std::string> argv;
  std::vector<EnvVar> env;  // complete and expanded, sorted by name, but for late values
  std::vector<GpuUuid> gpus;
  std::vector<int> cpus;  // logical CPUs; empty = not bound
  friend bool operator==(const RankSpec&, const RankSpec&) = default;
};

struct StopPolicy {
  std::optional<int> signal;  // checkpoint signal, to rank processes only
  Millis signal_before{0};    // this long before TERM
  Millis grace{0};            // TERM to KILL
  friend bool operator==(const StopPolicy&, const StopPolicy&) = default;
};

// Ranks run inside a container, one each, of the runtime that the node has.
struct ContainerSpec {
  std::string runtime;  // apptainer | singularity | enroot | docker | podman
  std::string image;
  std::vector<Mount> mounts;
  std::optional<std::uint64_t> shm_bytes;  // absent: the host's /dev/shm
  std::vector<std::string> own_env;        // variables that the image sets and the node does not
  friend bool operator==(const ContainerSpec&, const ContainerSpec&) = default;
};

// Everything an agent needs to run its part of an attempt. `digest` = SHA-256 of its wire bytes.
struct AllocationSpec {
  Key key;
  NodeId node;
  std::string job_name;
  std::string user;
  std::string workdir;              // absolute, in place
  std::uint64_t workdir_inode = 0;  // 0 = not known to the submitter
  std::int64_t workdir_mtime_ns = 0;
  std::string snapshot;  // root of a copy of workdir; used when Stage says so. Empty = none
  bool snapshot_always = false;
  std::optional<ContainerSpec> container;
  std::string interpreter;  // absolute path when the plan knows it (venv, python); else empty
  std::string
      interpreter_of;  // launcher word whose shebang gives the interpreter ("torchrun"); or empty
  std::string
      command_word;    // first word of the command, checked before start; empty = not checkable
  std::string script;  // absolute path of the program that an interpreter is given; or empty
  std::vector<std::string> inputs;     // absolute paths that the line names as data to be read
  std::vector<std::string> arguments;  // other absolute paths in it; what for is not known
  bool needs_torch_cuda = false;  // GPU job: the runtime must see CUDA (finding torch_cpu_only)
  PreflightLevel preflight = PreflightLevel::kQuick;
  std::string setup;  // bash, once; empty = none
  Millis setup_timeout{30 * 60 * 1000};
  std::vector<GeneratedFile> files;
  std::vector<RankSpec> ranks;
  std::vector<GpuUuid> gpus;     // all of the allocation, in index order
  std::vector<int> gpu_indices;  // expected index of each; another index now = inventory_changed
  int cpus = 0;
  std::optional<std::uint64_t> memory_limit_bytes;
  bool needs_ports = false;  // rank 0 lives here
  StopPolicy stop;
  LogsSpec logs;
  std::string progress_regex;
  std::string checkpoint_dir;     // expanded; empty = none
  std::string checkpoint_format;  // only checkpoints of this format count; empty or auto = of any
  std::string checkpoint_marker;  // file that makes a directory a complete one; empty = by format
  int world_size = 1;
  std::vector<std::string> secret_names;
  std::optional<Millis> lease;  // without word of the controller for this long the ranks end
  friend bool operator==(const AllocationSpec&, const AllocationSpec&) = default;
};

// Why an attempt is being stopped; the first one names the attempt's outcome.
enum class StopCause {
  kNone,
  kRankFailed,
  kCancelled,
  kTimeLimit,
  kPreempted,
  kNodeLost,
  kStartFailed,
  kStale,
  kLease,
  kHang,
};

// How one rank ended. Proved by the kernel or `unknown(why)`, never invented.
struct Exited {
  int code = 0;
  friend bool operator==(const Exited&, const Exited&) = default;
};
struct Signalled {
  int signal = 0;
  bool core = false;
  friend bool operator==(const Signalled&, const Signalled&) = default;
};
struct OutOfMemory {
  std::string scope;  // rank | job | host
  std::uint64_t limit_bytes = 0;
  std::uint64_t peak_bytes = 0;
  friend bool operator==(const OutOfMemory&, const OutOfMemory&) = default;
};
struct FailedToStart {
  std::string stage;  // fork, cgroup, chdir, exec, agent_restarted ...
  int error_number = 0;
  std::string text;
  friend bool operator==(const FailedToStart&, const FailedToStart&) = default;
};
struct UnknownEnd {
  std::string why;
  friend bool operator==(const UnknownEnd&, const UnknownEnd&) = default;
};
using ExitCause = std::variant<Exited, Signalled, OutOfMemory, FailedToStart, UnknownEnd>;

struct OurSignal {  // sent by us to this rank
  int signal = 0;
  BootTime at{};
  std::string why;
  friend bool operator==(const OurSignal&, const OurSignal&) = default;
};

struct ExitReport {
  Key key;
  Rank rank = 0;
  std::string boot_id;
  ExitCause cause;
  std::vector<OurSignal> our_signals;
  BootTime started{};
  BootTime ended{};
  std::int64_t user_ms = 0;
  std::int64_t system_ms = 0;
  std::uint64_t max_rss_bytes = 0;
  std::uint64_t oom_kills = 0;  // of the rank's cgroup, during the attempt
  std::uint64_t log_end = 0;    // bytes of output at the end
  // What the kernel wrote meanwhile and may explain an end that was no success; see kernel_log.h.
  std::vector<std::string> kernel_lines = {};
  friend bool operator==(const ExitReport&, const ExitReport&) = default;
};

// Whether the rank ended with exit code 0, and not because its lease was over.
bool Succeeded(const ExitReport& report);
// Whether the rank's shim ended it because its node was cut off for longer than requeue_after.
bool EndedByLease(const ExitReport& report);
int ShellCode(const ExitCause& cause);  // code, 128+n, 126 failed to start, 137 OOM, 255 unknown
std::string Describe(
    const ExitCause& cause);  // "exit 33", "signal 9 (SIGKILL)", "unknown (node rebooted)"

enum class AllocationPhase { kAccepted, kReady, kStarted, kExited, kReleased, kDropped };

// Whether nothing of an allocation in this phase is left on the node.
constexpr bool IsGone(AllocationPhase phase) {
  return phase == AllocationPhase::kReleased || phase == AllocationPhase::kDropped;
}

struct PortBlock {
  int first = 0;
  int count = 0;
  friend bool operator==(const PortBlock&, const PortBlock&) = default;
};

// One rank of an allocation as the agent finds it on disk and in the kernel.
struct RankStatus {
  Rank rank = 0;
  bool started = false;
  std::int64_t pid = 0;            // display only; identity is the pidfd on the node
  std::optional<ExitReport> exit;  // while not acknowledged
  friend bool operator==(const RankStatus&, const RankStatus&) = default;
};

struct AllocationStatus {
  Key key;
  std::string digest;
  AllocationPhase phase = AllocationPhase::kAccepted;
  std::optional<PortBlock> ports;
  std::vector<RankStatus> ranks;
  std::vector<GpuUuid> gpus;
  friend bool operator==(const AllocationStatus&, const AllocationStatus&) = default;
};

struct CheckpointFound {
  std::string path;
  std::int64_t step = 0;
  std::string format;  // hf, torch, dcp, ...
  bool complete = false;
  std::string why;  // of an incomplete one
  WallTime modified{};
  friend bool operator==(const CheckpointFound&, const CheckpointFound&) = default;
};

struct Reachability {  // of rank 0's address, probed from this node
  std::string address;
  bool ok = false;
  std::string interface;  // the route's interface: GLOO_SOCKET_IFNAME / NCCL_SOCKET_IFNAME
  std::string why;
  friend bool operator==(const Reachability&, const Reachability&) = default;
};

struct PathFact {
  // "workdir", "command", "script", "interpreter", "marker", "input", "argument", "local_disk"
  std::string what;
  std::string path;
  bool ok = false;
  std::string why;  // "no such directory", "not executable", "not found on PATH /a:/b"
  std::uint64_t inode = 0;
  friend bool operator==(const PathFact&, const PathFact&) = default;
};

struct DiskFact {    // a file system that the job writes to
  std::string what;  // "workdir", "checkpoint", "shm"
  std::string path;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;              // for the job's user
  std::optional<std::uint64_t> free_inodes;  // absent where the file system has no such limit
  friend bool operator==(const DiskFact&, const DiskFact&) = default;
};

// Another node of the attempt, as this one met it. Each pair is tried once, by its lower place.
struct PeerFact {
  int place = 0;  // position of the other node in the attempt
  std::string address;
  bool ok = false;
  std::string why;
  std::optional<double> mbit;        // the slower direction; absent: not measured
  std::optional<double> latency_us;  // of one small message, there only
  friend bool operator==(const PeerFact&, const PeerFact&) = default;
};

// An all-reduce of one GPU of each node through the NCCL that the job loads (launch-nccl-test).
struct NcclFacts {
  bool tested = false;
  bool ok = false;
  std::string why;             // not ok, or not tested
  std::string version;         // "2.27.7"
  std::string transport;       // the network that NCCL chose: "IB", "Socket"; empty: it did not say
  std::optional<double> us;    // of 8 KiB
  std::optional<double> mbit;  // of 64 MiB: what each node sends and gets
  friend bool operator==(const NcclFacts&, const NcclFacts&) = default;
};

// What the nodes of an attempt found when they spoke with each other, all at once.
struct NetworkFacts {
  std::string backend;  // of the all-reduce: "gloo"; empty: there was none, `why` says why not
  bool ok = false;      // the all-reduce gave the right sum, or there was none and the peers met
  std::string why;
  std::optional<double> allreduce_us;    // of 8 KiB
  std::optional<double> allreduce_mbit;  // of 4 MiB: what each node sends and gets
  std::vector<PeerFact> peers;
  std::optional<NcclFacts> nccl = {};  // absent: the job has no GPUs
  friend bool operator==(const NetworkFacts&, const NetworkFacts&) = default;
};

// What a node found while staging; judged in preflight/, never by the agent.
struct StagingFacts {
  std::vector<PathFact> paths;
  std::optional<RuntimeFacts> runtime;
  std::vector<Reachability> reach;
  std::vector<CheckpointFound> checkpoints;
  std::optional<int> setup_exit;  // exit code of `setup`, if one ran
  std::string setup_tail;         // its last lines when it failed
  std::vector<DiskFact> disks;
  std::optional<WallTime> wall;         // the node's clock when it answered
  std::optional<NetworkFacts> network;  // the answer to a Stage that asked for nothing else
  bool from_snapshot = false;           // of a copy of workdir, not of workdir itself
  friend bool operator==(const StagingFacts&, const StagingFacts&) = default;
};

std::string_view ToString(StartKind v);
std::string_view ToString(StopCause v);
std::string_view ToString(AllocationPhase v);

}  // namespace launch
