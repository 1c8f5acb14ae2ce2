// Plan: how a job will run; a pure function of spec, context and inventories.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/job.h"
#include "common/launch.h"

namespace launch {

enum class Basis { kNone, kCold, kProbed, kMeasured };

struct PlannedTerm {
  std::string name;   // "weights", "logits and loss" ...
  std::string phase;  // "load", "forward", "backward", "step", "evaluation"
  double gib = 0;
  friend bool operator==(const PlannedTerm&, const PlannedTerm&) = default;
};

struct MemoryForecast {            // per GPU
  std::vector<PlannedTerm> terms;  // those of one phase add up to its total
  std::optional<double> peak_gib;  // absent = prediction unavailable
  std::optional<double> low_gib;
  std::optional<double> high_gib;
  double limit_gib = 0;  // usable memory of the smallest device
  Basis basis = Basis::kNone;
  std::string phase;  // the limiting one
  std::string fits;   // yes | tight | no; empty = not judged
  std::optional<double>
      host_gib;               // host memory the plan takes on one node, without the script's own
  double host_limit_gib = 0;  // free host memory of the smallest node
  std::vector<std::string> assumptions;
  friend bool operator==(const MemoryForecast&, const MemoryForecast&) = default;
};

struct BatchSplit {  // absent = not planned: the user gave nothing
  std::optional<std::int64_t> global;
  std::optional<std::int64_t> micro;
  std::optional<std::int64_t> accumulate;
  friend bool operator==(const BatchSplit&, const BatchSplit&) = default;
};

struct LoaderPlan {
  int num_workers = 0;
  bool pin_memory = false;
  bool persistent_workers = false;
  friend bool operator==(const LoaderPlan&, const LoaderPlan&) = default;
};

struct Processes {
  int total = 0;
  int per_node = 0;
  int cpus_per_process = 0;
  friend bool operator==(const Processes&, const Processes&) = default;
};

struct RankAssignment {
  Rank rank = 0;
  int local_rank = 0;
  NodeId node;
  std::vector<int> gpus;  // indices in PCI order on the node
  std::vector<GpuUuid> gpu_uuids;
  std::map<std::string, std::string> env;  // complete: what the rank will see, but for `late`
  friend bool operator==(const RankAssignment&, const RankAssignment&) = default;
};

struct Candidate {
  std::string strategy;
  std::string code;  // reason code, stable
  std::string reason;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct DurationForecast {
  std::optional<double> seconds;
  std::optional<double> low;
  std::optional<double> high;
  Basis basis = Basis::kNone;
  std::optional<double> step_seconds;  // of one optimizer step
  std::optional<double> tokens_per_second_per_gpu;
  std::optional<double> samples_per_second;  // of the whole run
  std::string bound;  // "compute", "network" ...: what most of a step goes to
  friend bool operator==(const DurationForecast&, const DurationForecast&) = default;
};

// A plan of strictly less memory that keeps the global batch: what a retry may change to.
struct Fallback {
  Strategy strategy = Strategy::kSingle;
  Offload offload = Offload::kNone;
  std::string checkpointing;  // none | selective | full
  BatchSplit batch;
  double peak_gib = 0;
  std::optional<double> step_seconds;
  friend bool operator==(const Fallback&, const Fallback&) = default;
};

// What another choice of the user's would change: one row of "what if".
struct Change {
  std::string change;    // "twice the GPUs", "seq_len=8192"
  std::string strategy;  // empty when nothing fits
  Offload offload = Offload::kNone;
  BatchSplit batch;
  std::optional<double> peak_gib;
  std::string fits;  // yes | tight | no
  std::optional<double> step_seconds;
  std::optional<double> duration_seconds;
  std::string says;  // one sentence
  friend bool operator==(const Change&, const Change&) = default;
};

// What a few steps at one micro-batch took: the largest over the ranks.
struct ProbePoint {
  std::int64_t micro = 1;
  std::int64_t accumulate = 1;
  bool gpu = false;         // torch's counters; else the process's own peak
  double load_bytes = 0;    // peak before the first step was over
  double peak_bytes = 0;    // peak of the steps after it
  double static_bytes = 0;  // what stays after a step
  double step_seconds = 0;
  double loader_seconds = 0;  // of them waiting for torch's data loader
  friend bool operator==(const ProbePoint&, const ProbePoint&) = default;
};

// One run of a job as it was: what `plan --calibration` reads and `launch calibration` writes.
struct MeasuredRun {
  std::string job;     // name
  std::string device;  // class of GPU ("A100-40GB"), "mps" or "cpu"
  int ranks = 1;
  std::optional<std::int64_t> global_batch;
  std::optional<double> step_seconds;  // of one optimizer step, after warm-up
  std::optional<double> seconds;       // of the whole run
  std::optional<std::int64_t> micro;   // samples of one rank's forward pass
  std::optional<double> peak_gib;      // memory of the fullest GPU; on cpu of the largest process
  // What other jobs' runs must share with it to learn from it; empty or absent = not known.
  std::string architecture;  // "llama", or the kind of network
  std::string framework;     // trainer: "hf", "deepspeed" ...; "auto" = the script's own
  std::string strategy;
  std::optional<double> cold_step_seconds;  // as the formula predicted it
  std::optional<double> cold_peak_gib;      // likewise: memory of a GPU
  std::optional<double> cold_fixed_gib;     // of it what no sample adds: states, buffers, context
  // What else must be the same for this to be a run of the same program in the same way.
  std::string script;  // digest of command, environment, model and files; empty = not known
  std::string precision;
  std::string offload;
  std::string checkpointing;
  std::optional<ProbePoint> probe;  // a few steps only (plan --probe, submit --debug): no whole run
  friend bool operator==(const MeasuredRun&, const MeasuredRun&) = default;
};

struct Plan {
  Strategy strategy = Strategy::kSingle;
  std::string why;
  Offload offload = Offload::kNone;
  DeviceClass device = DeviceClass::kCpu;
  std::string device_name;
  std::string device_reason;
  Precision precision = Precision::kFp32;
  std::string precision_reason;
  BatchSplit batch;
  int world_size = 1;
  Processes processes;
  StartKind start = StartKind::kDirect;
  LauncherKind launcher = LauncherKind::kProcess;  // what `run` was read as
  std::vector<std::string> read;                   // what was read from `run`, one sentence each
  std::string command;                             // what each process executes, as shell text
  MemoryForecast memory;
  LoaderPlan loader;
  std::optional<std::int64_t> steps;
  DurationForecast duration;
  std::vector<RankAssignment> assignments;  // ordered by rank
  std::vector<GeneratedFile> files;
  std::string workdir;            // path and "in place" or the reason against it
  std::vector<std::string> late;  // variables only the start fixes
  std::vector<Finding> warnings;
  std::vector<Candidate> rejected;
  std::string checkpointing;         // activation checkpointing planned for; empty = not planned
  Trainer trainer = Trainer::kAuto;  // as written, or as the line shows
  std::vector<Fallback> fallbacks;
  std::vector<Change> changes;  // made for `launch plan` only
  MeasuredRun run;              // this run as its measurement will be named; no measured figure
  friend bool operator==(const Plan&, const Plan&) = default;
};

// What the reader of a plan wants to know beyond it: rows of what another choice would change, the
// usual ones or those asked for ("nodes=4,seq_len=8192").
struct PlanQuestions {
  bool explain = false;
  std::vector<std::string> what_if;
  std::vector<MeasuredRun> history;  // oldest first
  friend bool operator==(const PlanQuestions&, const PlanQuestions&) = default;
};

std::string_view ToString(Basis v);

}  // namespace launch
