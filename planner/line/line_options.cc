// What a job tells the reader of its line.
#include <algorithm>
#include <array>

#include "planner/line/launch_line.h"

namespace launch {

namespace {

using Told = std::map<std::string, std::string, std::less<>>;

// In a start script each of these has a default for a run by hand.
constexpr std::array<std::string_view, 4> kProcsNames = {
    "NPROC_PER_NODE", "PET_NPROC_PER_NODE", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"};
constexpr std::array<std::string_view, 4> kNodesNames = {"NNODES", "PET_NNODES", "SLURM_NNODES",
                                                         "SLURM_JOB_NUM_NODES"};

void Tell(const auto& names, const std::string& value, Told& told) {
  for (const std::string_view name : names) told.insert_or_assign(std::string(name), value);
}

// GPUs of a node, where all alternatives have the same number.
std::string CountOf(const std::vector<GpuRequest>& gpus) {
  const bool same = std::all_of(gpus.begin(), gpus.end(),
                                [&](const GpuRequest& one) { return one.count == gpus[0].count; });
  return same ? std::to_string(gpus[0].count) : std::string(kGpusOfNode);
}

}  // namespace

bool NamesPython(const JobSpec& spec) { return !spec.python.empty() && spec.image.empty(); }

LaunchLineOptions LineOptions(const JobSpec& spec,
                              const std::map<std::string, std::string>& files) {
  LaunchLineOptions options{.launcher = spec.launcher,
                            .local_rank_arg = spec.local_rank_arg,
                            .env = spec.env,
                            .files = files,
                            .workdir = spec.workdir,
                            .gpu_ids = spec.gpu_ids,
                            .procs_written = spec.procs_per_node.has_value(),
                            .gpu_per_rank = spec.gpu_binding == GpuBinding::kPerRank,
                            .names_python = NamesPython(spec)};
  if (!spec.nodes.automatic) {
    const std::string most =
        spec.nodes.max > spec.nodes.min ? ":" + std::to_string(spec.nodes.max) : "";
    Tell(kNodesNames, std::to_string(spec.nodes.min) + most, options.told);
  }
  const bool counted = spec.gpus_written && !spec.gpus.empty() && spec.gpus[0].count > 0;
  if (spec.procs_per_node) {
    Tell(kProcsNames, std::to_string(*spec.procs_per_node), options.told);
  } else if (!spec.gpu_ids.empty()) {
    Tell(kProcsNames, std::to_string(spec.gpu_ids.size()), options.told);
  } else if (counted) {
    Tell(kProcsNames, CountOf(spec.gpus), options.told);
  } else if (spec.total_gpus) {
    Tell(kProcsNames, std::string(kGpusOfNode), options.told);
  } else {
    options.gpus_open = !spec.gpus_written;
  }
  return options;
}

bool IsContractVariable(std::string_view name) {
  constexpr std::array<std::string_view, 19> kNames = {"RANK",
                                                       "WORLD_SIZE",
                                                       "LOCAL_RANK",
                                                       "LOCAL_WORLD_SIZE",
                                                       "NODE_RANK",
                                                       "GROUP_RANK",
                                                       "GROUP_WORLD_SIZE",
                                                       "ROLE_RANK",
                                                       "ROLE_WORLD_SIZE",
                                                       "ROLE_NAME",
                                                       "MASTER_ADDR",
                                                       "MASTER_PORT",
                                                       "CROSS_RANK",
                                                       "CROSS_SIZE",
                                                       "LOCAL_SIZE",
                                                       "TORCHELASTIC_RUN_ID",
                                                       "TORCHELASTIC_RESTART_COUNT",
                                                       "TORCHELASTIC_MAX_RESTARTS",
                                                       "TORCHELASTIC_USE_AGENT_STORE"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace launch
