// A plan worker for tests: one rank a GPU (or one a node, also with `launcher: node`), no thought
// about anything.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "controller/core/effect.h"
#include "controller/core/state.h"

namespace launch::controller {

inline PlanOutcome CannedPlan(const effect::PlanWanted& wanted) {
  PlanOutcome outcome;
  outcome.line = DemandIn(ReadLineOf(wanted.spec, wanted.context.files));
  outcome.plan = Plan{};
  outcome.plan->strategy = Strategy::kDdp;
  outcome.plan->late = {"GLOO_SOCKET_IFNAME", "MASTER_ADDR"};
  const bool per_node = wanted.spec.launcher == LauncherKind::kNode;
  if (per_node) outcome.plan->start = StartKind::kPerNode;
  if (!wanted.placed) return outcome;
  Rank next = 0;
  for (std::size_t i = 0; i < wanted.placed->nodes.size(); ++i) {
    PlannedAllocation planned;
    AllocationSpec& spec = planned.spec;
    spec.key = wanted.placed->key;
    spec.node = wanted.placed->nodes[i];
    spec.job_name = wanted.spec.name;
    spec.needs_ports = i == 0;
    spec.stop.grace = wanted.spec.stop_duration;
    spec.lease = wanted.spec.requeue_after;
    if (const auto& memory = wanted.spec.memory_bytes; memory && !memory->at_least) {
      spec.memory_limit_bytes = memory->value;
    }
    for (const effect::NodeOffer& offer : wanted.offers) {
      if (offer.inventory->node != spec.node) continue;
      for (const int index : wanted.placed->gpus[i]) {
        spec.gpus.push_back(offer.inventory->gpus[static_cast<std::size_t>(index)].uuid);
        spec.gpu_indices.push_back(index);
      }
    }
    const int ranks = per_node ? 1 : std::max<int>(1, static_cast<int>(spec.gpus.size()));
    spec.cpus = ranks;
    for (int local = 0; local < ranks; ++local) {
      RankSpec rank;
      rank.rank = next++;
      rank.local_rank = local;
      spec.ranks.push_back(rank);
    }
    outcome.plan->world_size = next;
    planned.digest = "digest of " + ToString(spec.key) + " on " + spec.node.value;
    outcome.allocations.push_back(std::move(planned));
  }
  outcome.stored = "plan " + ToString(wanted.placed->key);
  outcome.stored_digest = "digest of " + outcome.stored;
  return outcome;
}

}  // namespace launch::controller
