// Whether a torch build has device code for a GPU: names of architectures against a capability.
#pragma once

#include <string>
#include <vector>

#include "common/inventory.h"

namespace launch {

enum class Kernels {
  kUnknown,   // the build's list is not known
  kNative,    // machine code for this GPU
  kCompiled,  // PTX only: the driver compiles it at the first start
  kNone,
};

// CUDA's rules: sm_XY runs on capability X.Z for Z >= Y; sm_XYa only on X.Y; sm_XYf on X.Z for Z >=
// Y of that family; compute_XY (PTX) is compiled for any capability from X.Y on.
Kernels KernelsFor(const std::vector<std::string>& arch_list, ComputeCapability cc);

std::string ArchName(ComputeCapability cc);  // "sm_90"

}  // namespace launch
