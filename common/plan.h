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

struct MemoryTerm {
  std::string name;
  std::string phase;
  double gib = 0;
  friend bool operator==(const MemoryTerm&, const MemoryTerm&) = default;
};

struct MemoryForecast {  // per GPU
  std::vector<MemoryTerm> terms;
  std::optional<double> peak_gib;  // absent = prediction unavailable
  std::optional<double> low_gib;
  std::optional<double> high_gib;
  double limit_gib = 0;  // usable memory of the smallest device
  Basis basis = Basis::kNone;
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
  friend bool operator==(const DurationForecast&, const DurationForecast&) = default;
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
  friend bool operator==(const Plan&, const Plan&) = default;
};

std::string_view ToString(Basis v);
std::optional<Basis> ParseBasis(std::string_view text);

}  // namespace launch
