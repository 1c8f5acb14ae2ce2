// The truth about torch on a GPU node: installed, built with CUDA, able to use this GPU.
#pragma once

#include "common/inventory.h"
#include "preflight/report.h"

namespace launch {

// Facts read ahead may come from another environment than the job's; those of staging are its own.
enum class FactsFrom { kInventory, kStaging };

// Whether the job surely needs torch: a torchrun line does, a Python program may not.
enum class TorchNeed { kPossible, kCertain };

struct TorchQuestion {
  const NodeInventory& node;
  const RuntimeFacts& runtime;
  FactsFrom from = FactsFrom::kInventory;
  TorchNeed need = TorchNeed::kPossible;
  bool command_alone = false;  // nothing of `run` comes before Python and could set its environment
};

// The lines "torch installed", "torch CUDA" and "GPU usable" of `launch check`.
void JudgeTorch(const TorchQuestion& question, PreflightReport& report);

// The lines "driver" and "CUDA runtime".
void JudgeDriver(const NodeInventory& node, PreflightReport& report);

}  // namespace launch
