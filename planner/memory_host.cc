#include <algorithm>
#include <utility>

#include "common/units.h"
#include "planner/memory_parts.h"
#include "planner/strategy.h"

namespace launch {

namespace {

HostMemory Sum(PhaseKind phase, std::vector<MemoryTerm> terms) {
  HostMemory host{phase, {}, 0};
  for (MemoryTerm& term : terms) {
    if (term.bytes <= 0) continue;
    host.bytes += term.bytes;
    host.terms.push_back(std::move(term));
  }
  return host;
}

}  // namespace

// DeepSpeed's estimators (runtime/zero/stage_1_and_2.py, stage3.py): 12 bytes of fp32 master and
// Adam states and 4 of fp32 gradients per parameter, 2 more for offloaded weights, shared by all
// ranks of the node and enlarged by its buffers.
HostMemory HostMemoryOf(const ModelCard& card, const TrainingSetup& setup,
                        const MemoryConstants& c) {
  const double params = static_cast<double>(card.params);
  const double local =
      setup.ranks_per_node > 0 ? std::min(setup.ranks, setup.ranks_per_node) : setup.ranks;
  const MemoryTerm processes{"processes", TermKind::kOverhead, local * c.process_gib * kGiBytes};
  // Weights pass through the host once per rank, unless a rank-aware loader shards them.
  const bool rank_aware = setup.strategy == Strategy::kZero3 || setup.strategy == Strategy::kFsdp ||
                          setup.strategy == Strategy::kFsdpHybrid;
  const double weight = setup.format == StateFormat::kFp32 || setup.format == StateFormat::kAmp ||
                                setup.format == StateFormat::kFsdpMixed
                            ? 4
                            : 2;
  const HostMemory load =
      Sum(PhaseKind::kLoad,
          {{"weights", TermKind::kState, weight * params * (rank_aware ? 1 : local)}, processes});
  if (setup.offload == Offload::kNone && !setup.optimizer.paged && !setup.optimizer.on_host)
    return load;
  const double trained =
      setup.lora_rank > 0 ? AdapterParams(card, setup) : static_cast<double>(card.trainable_params);
  const double share = trained / std::max(1.0, ShardsOf(setup).optimizer) * local;
  const double states =
      setup.optimizer.paged ? StateBytesOf(setup.format, setup.optimizer).optimizer : 12;
  const bool weights_too = setup.offload == Offload::kAll;
  const HostMemory step =
      Sum(PhaseKind::kStep,
          {{"optimizer states", TermKind::kState, states * share},
           {"gradients", TermKind::kBuffer, setup.optimizer.paged ? 0 : 4 * share},
           {"weights", TermKind::kState,
            weights_too ? 2 * params / ShardsOf(setup).weights * local : 0},
           {"buffers", TermKind::kBuffer,
            setup.optimizer.paged
                ? 0
                : (c.host_buffers - 1) * ((states + 4) * share + (weights_too ? 2 * params : 0))},
           processes});
  return step.bytes > load.bytes ? step : load;
}

}  // namespace launch
