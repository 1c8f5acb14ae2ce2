// What of the host stops or slows a run: shared memory, limits, disks, container runtime.
#pragma once

#include <string>
#include <vector>

#include "common/launch.h"
#include "preflight/node_case.h"
#include "preflight/report.h"

namespace launch {

// An InfiniBand or RoCE adapter.
bool HasRdma(const NodeInventory& node);

// shm_small, memlock_low, nofile_low and nproc_low, for what the plan starts on the node.
void JudgeLimits(const NodeCase& c, PreflightReport& report);
// The same without a job: what a GPU job would meet.
void JudgeNodeLimits(const NodeInventory& node, PreflightReport& report);

// node_silent of a node that does not answer: what is known of it was told before. `why` as "silent
// for 24s", `heard` when it was heard last, empty where nobody knows.
void JudgeSilence(const NodeId& node, const std::string& why, const std::string& heard,
                  PreflightReport& report);

// disk_low and shm_small from the free space that staging found.
void JudgeDisks(const std::vector<DiskFact>& disks, const NodeInventory& node,
                PreflightReport& report);
// What `disk:` of the job asks of them.
void JudgeAskedDisk(const JobSpec& spec, const std::vector<DiskFact>& disks, const NodeId& node,
                    PreflightReport& report);

// container_runtime_missing for a job with `image:`; judged before any plan is made.
void JudgeContainer(const JobSpec& spec, const NodeInventory& node, PreflightReport& report);

}  // namespace launch
