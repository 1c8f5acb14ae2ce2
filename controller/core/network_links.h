// What tests of the network between nodes taught, kept with the nodes for later plans.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/launch.h"
#include "common/network_link.h"
#include "controller/core/effect.h"
#include "controller/core/record.h"
#include "controller/core/state.h"

namespace launch::controller {

inline constexpr std::size_t kMostLinks = 64;           // of one node, the newest
inline constexpr Millis kLinksKept{30LL * 86'400'000};  // then nobody knows any more

struct LearntLinks {
  std::vector<NodeRecord> nodes;  // those that change
  std::string says;               // "3 pairs of nodes, the slowest node1 and node2 at 940 Mbit/s"
};

// `facts` by place, of the nodes of one test. What agrees with an earlier measurement of the pair,
// within a fifth, confirms it and keeps its figures, so that plans change only when the network
// did. Nodes of one machine tell nothing of a network.
LearntLinks LearnLinks(const State& state, const std::vector<NodeId>& nodes,
                       const std::vector<NetworkFacts>& facts, WallTime now);

// What was measured between the nodes at these positions of the offers. `known_by`: leaves out what
// was first measured later.
std::vector<MeasuredPair> MeasuredBetween(const std::vector<effect::NodeOffer>& offers,
                                          const std::vector<std::size_t>& chosen, WallTime now,
                                          std::optional<WallTime> known_by);

}  // namespace launch::controller
