#include "diagnosis/memory_growth.h"

#include <string>

#include "common/units.h"

namespace launch {
namespace {

// Bytes a step, where the steps are known.
std::optional<double> PerStep(const MemoryGrowth& growth) {
  if (!growth.steps || *growth.steps <= 0 || growth.to <= growth.from) return std::nullopt;
  return static_cast<double>(growth.to - growth.from) / static_cast<double>(*growth.steps);
}

std::string Rate(const MemoryGrowth& growth) {
  if (const auto bytes = PerStep(growth)) {
    return FormatBytes(static_cast<std::uint64_t>(*bytes)) + " more each step, over " +
           std::to_string(*growth.steps) + " steps";
  }
  return FormatBytes(static_cast<std::uint64_t>(60 * growth.bytes_per_second)) +
         " more each minute";
}

}  // namespace

Verdict WithGrowth(Verdict verdict, const MemoryGrowth& growth) {
  if (verdict.label != "cuda_oom" && verdict.label != "cuda_oom_fragmentation") return verdict;
  verdict.cause =
      "Memory grows from step to step until the GPU is full: after an optimizer step PyTorch "
      "held " +
      FormatBytes(growth.from) + " at first and " + FormatBytes(growth.to) + " at the end (" +
      Rate(growth) + "). " + verdict.cause;
  verdict.remedy =
      "find what is kept from step to step: a loss or metric that is added up without .item() or "
      ".detach(), outputs in a list, a data set that caches tensors on the GPU, "
      "backward(retain_graph=True); torch.cuda.memory._record_memory_history() shows who "
      "allocates. What follows only delays it, as each start from a checkpoint does: " +
      verdict.remedy;
  verdict.evidence.push_back("after optimizer steps: " + FormatBytes(growth.from) + " -> " +
                             FormatBytes(growth.to) + " allocated by PyTorch, " + Rate(growth));
  if (const auto bytes = PerStep(growth)) verdict.numbers["growth_per_step"] = *bytes / kGiBytes;
  return verdict;
}

}  // namespace launch
