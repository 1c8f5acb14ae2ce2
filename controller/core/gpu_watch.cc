#include "controller/core/gpu_watch.h"

#include <fmt/format.h>

#include <optional>

#include "common/mig.h"

namespace launch::controller {

std::string WhyGpuFails(const NodeInventory& inventory, const GpuUuid& gpu) {
  const std::optional<GpuPlace> place = FindGpu(inventory, gpu);
  if (!place) return fmt::format("GPU {}: the driver does not name it any more", gpu.value);
  const GpuDevice& device = inventory.gpus[place->index];
  if (device.health != Health::kBad) return {};
  return fmt::format("{} ({}): {}", GpuLabel(inventory, place->index), gpu.value, device.why);
}

void TellFailedGpus(Draft& draft, const NodeId& node, const NodeInventory& before,
                    const NodeInventory& now) {
  const State& state = draft.state();
  const auto held = state.held_by_node.find(node);
  if (held == state.held_by_node.end()) return;
  for (const Key& key : held->second) {
    if (state.attempts.at(key).phase != AttemptPhase::kRunning) continue;
    for (const GpuUuid& gpu : state.allocs.at(key).at(node).gpus) {
      const std::string why = WhyGpuFails(now, gpu);
      if (why.empty() || !WhyGpuFails(before, gpu).empty()) continue;
      draft.Event("attempt.gpu_failed", Subject(key), fmt::format("{}: {}", node.value, why));
    }
  }
}

std::vector<Finding> GpuFailures(const State& state, const Key& key) {
  std::vector<Finding> findings;
  const auto allocs = state.allocs.find(key);
  if (allocs == state.allocs.end()) return findings;
  for (const auto& [node, alloc] : allocs->second) {
    const NodeInventory* inventory = InventoryOf(state, node);
    if (inventory == nullptr) continue;
    for (const GpuUuid& gpu : alloc.gpus) {
      const std::string why = WhyGpuFails(*inventory, gpu);
      if (why.empty()) continue;
      findings.push_back(
          {"gpu_failed", Severity::kWarning, node, "a GPU of the job failed: " + why,
           "nothing was stopped: the program ends with an error of its own, or hangs",
           fmt::format("launch requeue {}   # begins again on other GPUs", key.job.value)});
    }
  }
  return findings;
}

}  // namespace launch::controller
