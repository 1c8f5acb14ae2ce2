// What a job asks of the cluster, once its file and its launch line are read together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/constraint.h"
#include "common/error.h"
#include "common/job.h"
#include "planner/line/launch_line.h"
#include "planner/planner.h"

namespace launch {

// One acceptable answer to "which GPUs": any of the models, `count` on every node.
struct GpuAlternative {
  std::vector<std::string> models;  // empty = any
  int count = 1;
};

struct Demand {
  DeviceClass device = DeviceClass::kCpu;
  std::string device_reason;
  bool cpu_fallback = false;  // auto found no accelerator
  int nodes_min = 1;
  int nodes_max = 1;
  std::vector<GpuAlternative> alternatives;  // empty for CPU jobs
  std::optional<int> total_gpus;
  std::optional<int> procs_per_node;  // absent: one per GPU
  bool procs_per_core = false;        // nproc-per-node=cpu
  std::vector<Finding> warnings;
};

// What the job asks of a single node, with its constraints parsed once. Keeps a reference to
// `spec`.
class NodeFilter {
 public:
  static Result<NodeFilter> Make(const JobSpec& spec);

  // Where no node has a container runtime, preflight says so: it knows what to install.
  void AllowWithoutRuntime() { needs_runtime_ = false; }

  // What the node lacks for the job, free or not; empty: it suits.
  std::string Lacks(const PlannerOffer& offer) const;

  // Indices of the node's GPUs that suit the alternative, of those in `among`, ascending.
  std::vector<int> Gpus(DeviceClass device, const GpuAlternative& alternative,
                        const NodeInventory& node, const std::vector<int>& among) const;

 private:
  NodeFilter(const JobSpec& spec, std::optional<Constraint> constraint);
  const JobSpec* spec_;
  bool needs_runtime_;
  std::optional<Constraint> constraint_;
};

// kInvalidArgument when fields of the job, or the job and its line, contradict each other.
Result<Demand> DemandOf(const JobSpec& spec, const LineDemand& line, const NodeFilter& filter,
                        const std::vector<PlannerOffer>& offers);

// Whether all GPUs of the node are bad. Such a node takes no job, not even one without GPUs: it
// needs a repair or a reboot.
bool HasOnlyBadGpus(const NodeInventory& node);

std::string Describe(const GpuAlternative& alternative);  // "8 H100", "4 GPUs"

}  // namespace launch
