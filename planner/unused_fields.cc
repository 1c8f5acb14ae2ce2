#include "planner/unused_fields.h"

#include <algorithm>
#include <string>

namespace launch {
namespace {

constexpr const char* kNoEffect = "gpu_binding_no_effect";

}  // namespace

Result<void> CheckLocalRankArg(const JobSpec& spec, const LaunchLine& line) {
  if (!spec.local_rank_arg) return {};
  // Added to it, or written by the user.
  for (const char* flag : {"--local_rank", "--local-rank"}) {
    if (line.shell.find(flag) != std::string::npos) return {};
  }
  const bool per_node = line.start == StartKind::kPerNode;
  const std::string what =
      per_node ? "run is started once per node, and its launcher starts the ranks"
               : "run starts " +
                     (line.command_word.empty() ? std::string("a shell text") : line.command_word) +
                     ", which is not Python";
  return Fail(ErrorCode::kInvalidArgument,
              "local_rank_arg: true cannot be met: " + what +
                  "; the argument is added to `python SCRIPT` and to a launcher's line whose ranks "
                  "are started directly",
              per_node ? "leave it out: the script finds LOCAL_RANK in its environment"
                       : "write --local_rank=$LOCAL_RANK into run, and leave local_rank_arg out");
}

std::vector<Finding> BindingFindings(const JobSpec& spec, const RankLayout& layout,
                                     const Plan& plan) {
  if (spec.gpu_binding != GpuBinding::kPerRank || plan.device != DeviceClass::kCuda) return {};
  for (const NodeShare& share : layout.nodes) {
    if (share.processes < 2) continue;
    if (plan.start == StartKind::kPerNode) {
      return {MakeFinding(kNoEffect, Severity::kWarning,
                          "gpu_binding: per_rank has no effect: run is started once per node, and "
                          "its launcher shows every rank all devices of the node",
                          "let run be one line of the launcher, whose ranks are started directly, "
                          "or leave gpu_binding out")};
    }
    if (!CannotDivideGpus(share)) continue;
    return {MakeFinding(
        kNoEffect, Severity::kWarning,
        "gpu_binding: per_rank has no effect on " + share.inventory->node.value + ": " +
            std::to_string(share.gpus.size()) + " devices cannot be divided among " +
            std::to_string(share.processes) + " processes, so every rank sees all of them",
        "write a procs_per_node that divides the devices, or is a multiple of them")};
  }
  return {};
}

}  // namespace launch
