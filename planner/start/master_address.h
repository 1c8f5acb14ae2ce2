// The probable meeting point of a job: the start proves the address and fixes the port.
#pragma once

#include <string>

#include "planner/place/ranks.h"

namespace launch {

inline constexpr int kProbablePort = 20000;  // first of the range agents hold ports from

struct ProbableMaster {
  std::string address;  // numeric; loopback when the node has told none
  std::string interface;
};
ProbableMaster MasterOf(const RankLayout& layout);

std::string AddressOf(const NodeInventory& node);
// Interface by which the node at this position would reach rank 0's node.
std::string InterfaceOf(const RankLayout& layout, std::size_t node);

}  // namespace launch
