// Whether DeepSpeed can build the operators that a job needs when it starts.
#pragma once

#include "preflight/node_case.h"
#include "preflight/report.h"

namespace launch {

// Operator that DeepSpeed compiles at the start of this job: "cpu_adam" for an optimizer that is
// offloaded by ZeRO, "deepspeed_shm_comm" where it trains on the CPU; empty when the plan asks for
// none.
std::string OpToBuild(const JobSpec& spec, const Plan& plan);

// toolkit_mismatch and op_build_prerequisites, by DeepSpeed's own rules (op_builder/builder.py):
// nvcc and torch of the same version, or both minor versions in its list for their major, else
// CUDAMismatchException unless DS_SKIP_CUDA_CHECK=1. Operators built when DeepSpeed was installed
// need nothing. On the CPU no nvcc is needed.
void JudgeOpBuild(const NodeCase& c, PreflightReport& report);

}  // namespace launch
