// The next plan of a job that ran out of GPU memory: strictly less memory, the same global batch.
#pragma once

#include <optional>
#include <string>

#include "common/diagnosis.h"
#include "common/job.h"
#include "common/plan.h"
#include "controller/core/record.h"

namespace launch::controller {

struct NextPlan {
  std::optional<PlanChange> change;  // absent: nothing is left to change
  std::string text;                  // what changes, or why nothing does; no final period
};

// What to try after `verdict`, a GPU out-of-memory one, ended an attempt that ran `failed`;
// `so_far` is what earlier ones changed. In this order: the allocator when memory was
// fragmented, micro-batch with accumulation, then the planner's plans of less memory. Never what
// was tried before; never a change that cannot get to the program. `sixteen_bits` is the 16-bit
// precision that the job's GPUs have, tried in place of 32 bits where the job allows it.
NextPlan ReplanAfter(const JobSpec& spec, const SubmitContext& context, const PlanChange& so_far,
                     const Plan& failed, const Verdict& verdict,
                     std::optional<Precision> sixteen_bits = std::nullopt);

// Whether nobody configured PyTorch's allocator, so that we may.
bool MayChangeAllocator(const JobSpec& spec, const Plan& plan);

// What to try after the host's memory ran out: fewer data loader workers without pinned memory,
// once; plan of the GPUs and batch stay.
NextPlan SpareHostMemory(const JobSpec& spec, const SubmitContext& context,
                         const PlanChange& so_far, const Plan& failed);

// The job with the change, as the planner gets it.
JobSpec WithChange(JobSpec spec, const PlanChange& change);

}  // namespace launch::controller
