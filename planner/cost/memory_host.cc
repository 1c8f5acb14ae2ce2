#include <algorithm>
#include <utility>

#include "common/units.h"
#include "planner/cost/memory_parts.h"
#include "planner/model/strategy.h"

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
  const bool paged = setup.optimizer.paged;
  const bool states_too = setup.offload != Offload::kNone || paged || setup.optimizer.on_host;
  const Shards shards = ShardsOf(setup);
  const double held = HostHoldsWeights(setup) ? 2 * params / shards.weights * local : 0;
  if (!states_too && held == 0) return load;
  const double share = states_too ? TrainedParams(card, setup) / shards.optimizer * local : 0;
  const double states = paged ? StateBytesOf(setup.format, setup.optimizer).optimizer : 12;
  const double gradients = paged ? 0 : 4 * share;
  const HostMemory step = Sum(
      PhaseKind::kStep, {{"optimizer states", TermKind::kState, states * share},
                         {"gradients", TermKind::kBuffer, gradients},
                         {"weights", TermKind::kState, held},
                         {"buffers", TermKind::kBuffer,
                          paged ? 0 : (c.host_buffers - 1) * (states * share + gradients + held)},
                         processes});
  return step.bytes > load.bytes ? step : load;
}

}  // namespace launch
