// The devices themselves: health, what they can compute, who else uses them.
#pragma once

#include <vector>

#include "preflight/node_case.h"
#include "preflight/report.h"

namespace launch {

// gpu_unhealthy, gpu_name_unknown, precision_unsupported and duplicate_gpu for the GPUs that the
// job gets.
void JudgeGpus(const NodeCase& c, PreflightReport& report);

// The same for every GPU of a node, without a job.
void JudgeAllGpus(const NodeInventory& node, PreflightReport& report);

// gpu_busy: GPUs that no job of ours has, and that hold memory all the same.
void JudgeForeignUse(const NodeInventory& node, const std::vector<GpuUuid>& free,
                     const std::vector<GpuSample>& samples, PreflightReport& report);

}  // namespace launch
