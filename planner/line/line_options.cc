// What a job tells the reader of its line.
#include <algorithm>
#include <array>

#include "planner/line/launch_line.h"

namespace launch {

LaunchLineOptions LineOptions(const JobSpec& spec,
                              const std::map<std::string, std::string>& files) {
  LaunchLineOptions options{.launcher = spec.launcher,
                            .local_rank_arg = spec.local_rank_arg,
                            .env = spec.env,
                            .files = files,
                            .workdir = spec.workdir,
                            .names_python = !spec.python.empty() && spec.image.empty()};
  if (!spec.nodes.automatic) {
    options.told["NNODES"] =
        std::to_string(spec.nodes.min) +
        (spec.nodes.max > spec.nodes.min ? ":" + std::to_string(spec.nodes.max) : "");
  }
  const bool counted = spec.gpus_written && !spec.gpus.empty() && spec.gpus[0].count > 0;
  if (spec.procs_per_node) {
    options.told["NPROC_PER_NODE"] = std::to_string(*spec.procs_per_node);
  } else if (!spec.gpu_ids.empty()) {
    options.told["NPROC_PER_NODE"] = std::to_string(spec.gpu_ids.size());
  } else if (counted) {
    options.told["NPROC_PER_NODE"] = std::to_string(spec.gpus[0].count);
  } else if (spec.total_gpus) {
    options.told["NPROC_PER_NODE"] = kGpusOfNode;
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
