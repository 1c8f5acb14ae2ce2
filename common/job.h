// JobSpec: what the user wrote, nothing inferred. docs/job-file.md explains every field.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/inventory.h"
#include "common/job_array.h"

namespace launch {

enum class LauncherKind { kAuto, kProcess, kTorchrun, kDeepspeed, kAccelerate, kMpi, kNode };
enum class Strategy {
  kAuto,
  kSingle,
  kDdp,
  kZero1,
  kZero2,
  kZero3,
  kFsdp,
  kFsdpGradOp,
  kFsdpHybrid
};
enum class Offload { kAuto, kNone, kOptimizer, kAll };
enum class Precision { kAuto, kBf16, kFp16, kFp32, kFp8, kTf32 };
// Numbers of four bytes; tf32 is fp32 whose matrix products run on tensor cores.
constexpr bool IsFullWidth(Precision v) { return v == Precision::kFp32 || v == Precision::kTf32; }
enum class DeviceChoice { kAuto, kCuda, kMps, kCpu };
enum class Trainer { kAuto, kHf, kDeepspeed, kAccelerate, kLightning, kPlain };
enum class GpuBinding { kAll, kPerRank };
enum class PreflightLevel { kNone, kQuick, kFull };
enum class NetworkCheck { kSkip, kWarn, kRequire };
enum class OnOom { kAuto, kReplan, kFail };
enum class HangAction { kDiagnose, kRestart, kNone };

struct NodeCount {
  int min = 1;
  int max = 1;             // > min: moldable, chosen at each start
  bool automatic = false;  // "auto": needs a deadline
  friend bool operator==(const NodeCount&, const NodeCount&) = default;
};

// One accepted kind of GPU: "H100:8" = {model "H100", count 8}; "8" = any model.
struct GpuRequest {
  std::string model;  // class of configs/gpus.yaml or part of the driver's name; empty = any
  int count = 1;      // per node
  friend bool operator==(const GpuRequest&, const GpuRequest&) = default;
};

struct Amount {  // "32+" = at least (request only); "32" = request and limit
  std::uint64_t value = 0;
  bool at_least = false;
  friend bool operator==(const Amount&, const Amount&) = default;
};

struct EnvEntry {
  std::string name;
  std::optional<std::string> value;  // absent = required from the caller
  friend bool operator==(const EnvEntry&, const EnvEntry&) = default;
};

struct Mount {  // into a container; absolute once $VAR in them is expanded on the node
  std::string source;
  std::string target;
  bool read_only = false;
  friend auto operator<=>(const Mount&, const Mount&) = default;
  friend bool operator==(const Mount&, const Mount&) = default;
};

struct BatchSpec {  // absent = auto
  std::optional<std::int64_t> global;
  std::optional<std::int64_t> micro;
  std::optional<std::int64_t> accumulate;
  friend bool operator==(const BatchSpec&, const BatchSpec&) = default;
};

// `model:` block, as written: scalars by key in the user's words ("params": "8B"). The planner
// reads it.
struct ModelSpec {
  std::map<std::string, std::string> fields;
  bool probe = false;
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

struct DatasetSpec {
  std::int64_t samples = 0;
  double epochs = 1;
  friend bool operator==(const DatasetSpec&, const DatasetSpec&) = default;
};

struct CheckpointSpec {
  std::string dir;  // may hold $VAR; empty = no resume promise
  std::string format =
      "auto";  // auto | torch | dcp | deepspeed | hf | accelerate | lightning | megatron | marker
  bool resume = true;  // "auto" | "never"
  std::string complete_marker;
  std::optional<int> signal;  // number
  Millis signal_before{0};    // sent this long before TERM
  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

struct RetrySpec {
  std::optional<int> max;  // unset: 2 for infrastructure causes, 0 for the user's code
  std::vector<std::string> on_events;
  Millis backoff{0};
  std::vector<int> recover_on_exit_codes;
  int no_progress_max = 2;
  friend bool operator==(const RetrySpec&, const RetrySpec&) = default;
};

struct HangSpec {
  Millis after{10 * 60 * 1000};
  HangAction action = HangAction::kDiagnose;
  friend bool operator==(const HangSpec&, const HangSpec&) = default;
};

struct LogsSpec {
  bool split = false;           // stderr in a file of its own
  std::uint64_t cap_bytes = 0;  // 0 = the agent's default
  friend bool operator==(const LogsSpec&, const LogsSpec&) = default;
};

struct JobSpec {
  std::string name;
  NodeCount nodes;
  std::vector<GpuRequest> gpus;  // in order of preference; see gpus_written
  bool gpus_written = false;     // unset = one if any schedulable node has one
  std::optional<int> total_gpus;
  std::optional<int> procs_per_node;  // unset = one per GPU ("gpu"), or 1 on CPU
  std::vector<int> gpu_ids;           // per node, PCI order
  std::optional<Amount> cpus;
  std::optional<Amount> memory_bytes;
  std::optional<std::uint64_t> shm_bytes;
  std::optional<std::uint64_t> disk_bytes;
  std::optional<Arch> arch;
  std::string constraints;  // text of common/constraint.h; checked when read
  std::vector<std::string> nodelist;
  std::vector<std::string> exclude_nodes;

  std::string workdir;    // absolute
  bool snapshot = false;  // a shipped copy in any case
  bool in_place = false;  // `snapshot: false`: never a copy
  std::string venv;       // absolute directory; at most one of venv, conda, python, image
  std::string conda;
  std::string python;  // absolute path of an interpreter
  std::string image;
  std::vector<Mount> mounts;  // of the container
  std::string setup;          // bash, once per node
  std::string run;            // bash
  LauncherKind launcher = LauncherKind::kAuto;
  std::vector<EnvEntry> env;  // in the order written
  std::vector<std::string> secrets;

  DeviceChoice device = DeviceChoice::kAuto;
  Strategy strategy = Strategy::kAuto;
  Offload offload = Offload::kAuto;
  Precision precision = Precision::kAuto;
  bool allow_precision_change = false;
  BatchSpec batch;
  ModelSpec model;
  std::optional<DatasetSpec> dataset;
  std::optional<std::int64_t> steps;
  Trainer trainer = Trainer::kAuto;
  GpuBinding gpu_binding = GpuBinding::kAll;
  bool local_rank_arg = false;

  CheckpointSpec checkpoint;
  RetrySpec retry;
  OnOom on_oom = OnOom::kAuto;
  std::optional<Millis> time_limit;
  Millis stop_duration{2 * 60 * 1000};
  std::optional<Millis> requeue_after;
  HangSpec hang;
  PreflightLevel preflight = PreflightLevel::kQuick;
  NetworkCheck preflight_network = NetworkCheck::kWarn;
  std::string progress_regex;
  LogsSpec logs;
  int priority = 50;
  std::map<std::string, std::string> labels;
  bool debug = false;       // a few steps; not part of the job's history
  bool check_only = false;  // ends where its ranks would be started (`launch check JOB`)

  std::optional<ArraySpec> array;       // many jobs of this one spec; never in a job's own
  std::optional<ArrayElement> element;  // which of them this job is
  std::vector<Dependency> depends_on;   // all must hold before it starts
  std::optional<WallTime> begin;        // it does not start before
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// The spec of one element: its own name (`train_3`), its own values.
JobSpec ElementSpec(JobSpec whole, ArrayElement element);
// What stands for all elements in a plan: the first; a spec without an array stays as it is.
JobSpec FirstElement(JobSpec whole);

inline constexpr std::size_t kMaxGitDiffBytes = 128 * 1024;
inline constexpr std::size_t kMaxContextFiles = 8;
inline constexpr std::size_t kMaxContextFileBytes = 256 * 1024;

// What the submitter's machine adds to the spec; never part of the file.
struct SubmitContext {
  std::string submit_dir;  // absolute
  std::string user;
  std::string host_boot_id;  // with network namespace: is the submitter on the node itself?
  std::map<std::string, std::string> caller_env;  // only keys the job requires from the caller
  std::string active_venv;                        // VIRTUAL_ENV of the caller, default of `venv`
  std::string active_conda;                       // CONDA_PREFIX of the caller
  std::uint64_t workdir_inode = 0;  // of the submitter's workdir; that of a node must be it
  std::int64_t workdir_mtime_ns = 0;
  std::string git_commit;
  std::string git_diff;  // of the working tree against it; cut at kMaxGitDiffBytes
  // Root of the uploaded copy of workdir (common/snapshot.h); empty = none was made.
  std::string snapshot;
  std::uint64_t snapshot_files = 0;
  std::uint64_t snapshot_bytes = 0;
  // Text of the configuration files that the job names (model.config, --deepspeed FILE), by the
  // path as written; at most kMaxContextFiles of kMaxContextFileBytes each.
  std::map<std::string, std::string> files;
  friend bool operator==(const SubmitContext&, const SubmitContext&) = default;
};

std::string_view ToString(LauncherKind v);
std::string_view ToString(Strategy v);  // "fsdp-grad-op"
std::string_view ToString(Offload v);
std::string_view ToString(Precision v);
std::string_view ToString(DeviceChoice v);
std::string_view ToString(Trainer v);
std::string_view ToString(GpuBinding v);
std::string_view ToString(PreflightLevel v);
std::string_view ToString(NetworkCheck v);
std::string_view ToString(OnOom v);
std::string_view ToString(HangAction v);
std::optional<LauncherKind> ParseLauncherKind(std::string_view text);
std::optional<Strategy> ParseStrategy(std::string_view text);
std::optional<Offload> ParseOffload(std::string_view text);
std::optional<Precision> ParsePrecision(std::string_view text);
std::optional<DeviceChoice> ParseDeviceChoice(std::string_view text);
std::optional<Trainer> ParseTrainer(std::string_view text);
std::optional<GpuBinding> ParseGpuBinding(std::string_view text);
std::optional<PreflightLevel> ParsePreflightLevel(std::string_view text);
std::optional<NetworkCheck> ParseNetworkCheck(std::string_view text);
std::optional<OnOom> ParseOnOom(std::string_view text);
std::optional<HangAction> ParseHangAction(std::string_view text);

}  // namespace launch
