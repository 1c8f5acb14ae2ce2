#include "planner/start/master_address.h"

namespace launch {
namespace {

bool IsLoopback(const NetworkAddress& address) {
  return address.address.rfind("127.", 0) == 0 || address.address == "::1" ||
         address.interface == "lo";
}

bool IsLinkLocal(const NetworkAddress& address) {
  return address.address.rfind("fe80:", 0) == 0 || address.address.rfind("169.254.", 0) == 0;
}

// Fastest interface, then the agent's order; loopback only when there is nothing else.
const NetworkAddress* BestOf(const NodeInventory& node) {
  const NetworkAddress* best = nullptr;
  for (const NetworkAddress& address : node.addresses) {
    if (IsLoopback(address) || IsLinkLocal(address)) continue;
    if (best == nullptr || address.mbit.value_or(0) > best->mbit.value_or(0)) best = &address;
  }
  return best;
}

}  // namespace

std::string AddressOf(const NodeInventory& node) {
  const NetworkAddress* best = BestOf(node);
  return best == nullptr ? "127.0.0.1" : best->address;
}

ProbableMaster MasterOf(const RankLayout& layout) {
  if (layout.nodes.empty()) return {"127.0.0.1", "lo"};
  const NetworkAddress* best = BestOf(*layout.nodes[0].inventory);
  if (best == nullptr) return {"127.0.0.1", "lo"};
  return {best->address, best->interface};
}

std::string InterfaceOf(const RankLayout& layout, std::size_t node) {
  const NetworkAddress* best = BestOf(*layout.nodes[node].inventory);
  return best == nullptr ? "lo" : best->interface;
}

}  // namespace launch
