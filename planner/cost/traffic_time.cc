#include "planner/cost/traffic_time.h"

#include <algorithm>
#include <cmath>

#include "planner/model/adapters.h"
#include "planner/model/strategy.h"

namespace launch {

namespace {

constexpr double kDdpBucketBytes = 25e6;  // torch's default
constexpr double kZeroBucketElements = 2e8;

// A ring over `ranks`: each carries (n-1)/n of the volume, and each collective passes all of them.
double Ring(double bytes, double ranks, double collectives, double rate,
            const TimeConstants& constants) {
  if (ranks <= 1) return 0;
  return bytes * (ranks - 1) / ranks / rate + collectives * ranks * constants.hop_seconds;
}

}  // namespace

TrafficTime TrafficTimeOf(const ModelCard& card, const TrainingSetup& setup, Precision precision,
                          const Machine& machine, const TimeConstants& constants) {
  TrafficTime time;
  const double ranks = setup.ranks;
  const double per_node =
      setup.ranks_per_node > 0 ? std::min(setup.ranks_per_node, setup.ranks) : setup.ranks;
  const double nodes = std::ceil(ranks / per_node);
  time.crosses_nodes = nodes > 1;
  const double rate =
      time.crosses_nodes ? NetworkRate(machine, constants) : LinkRate(machine, constants);

  const double params = static_cast<double>(card.params);
  const double trained = TrainedParams(card, setup);
  const double layers = static_cast<double>(std::max<std::int64_t>(1, card.layers));
  const double weight = IsFullWidth(precision) ? 4 : 2;
  const bool wide = setup.format == StateFormat::kFp32 || setup.format == StateFormat::kAmp;
  const double gradient = wide ? 4 : 2;
  const double reduced = gradient * trained;  // bytes of all gradients

  switch (setup.strategy) {
    case Strategy::kDdp:
      time.reduce_step =
          Ring(2 * reduced, ranks, std::ceil(reduced / kDdpBucketBytes), rate, constants);
      break;
    case Strategy::kZero1:
      time.reduce_step =
          Ring(reduced, ranks, std::ceil(trained / kZeroBucketElements), rate, constants);
      time.after_step = Ring(weight * trained, ranks, 1, rate, constants);
      break;
    case Strategy::kZero2:
      time.reduce_micro =
          Ring(reduced, ranks, std::ceil(trained / kZeroBucketElements), rate, constants);
      time.after_step = Ring(weight * trained, ranks, 1, rate, constants);
      break;
    case Strategy::kZero3:
    case Strategy::kFsdp:
      time.gather_micro = Ring(2 * weight * params + reduced, ranks, 3 * layers, rate, constants);
      break;
    case Strategy::kFsdpGradOp:
      time.gather_micro = Ring(weight * params + reduced, ranks, 2 * layers, rate, constants);
      break;
    case Strategy::kFsdpHybrid: {
      // Sharded within a node, its shards reduced across nodes by each GPU with its peers.
      time.gather_micro = Ring(2 * weight * params + reduced, per_node, 3 * layers,
                               LinkRate(machine, constants), constants);
      time.reduce_micro = Ring(2 * reduced / per_node, nodes, layers,
                               NetworkRate(machine, constants) / per_node, constants);
      break;
    }
    default:
      break;
  }

  const double shards = ShardsOf(setup).optimizer;
  const double link = HostLinkRate(machine, constants);
  if (HostHoldsWeights(setup)) time.fetch_micro = 2 * weight * params / shards / link;
  if (setup.offload == Offload::kNone) return time;
  // Stage 2 and above hand gradients over as they appear; below, once they are complete.
  const bool streams = IsSharded(setup.strategy) && setup.strategy != Strategy::kZero1;
  const double down = gradient * trained / shards / link;
  (streams ? time.host_micro : time.host_step) += down;
  time.host_step += weight * trained / shards / link + constants.host_adam_bytes * trained /
                                                           shards /
                                                           HostMemoryRate(machine, constants);
  return time;
}

}  // namespace launch
