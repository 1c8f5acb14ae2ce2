#include "planner/place/network_speed.h"

#include <algorithm>

#include "common/units.h"
#include "planner/cost/time_constants.h"

namespace launch {
namespace {

constexpr double kMbitOfGbyte = 8000;
// Of plain TCP over several connections: what is below was the network, what is above may have been
// the program that measured.
constexpr double kProgramFillsMbit = 20'000;
// As in preflight: other traffic halves a measurement easily, a wrong link divides it by ten.
constexpr double kFarBelow = 0.25;

struct Adapters {
  double fastest = 0;  // Mbit/s of one
  double all = 0;      // that ranks use at once
  bool rdma = false;
};

// NCCL spreads its rings over all RDMA adapters of a node; plain sockets take the one of the route.
Adapters AdaptersOf(const NodeInventory& node) {
  Adapters found;
  double rdma = 0;
  for (const NetworkAddress& address : node.addresses) {
    const double mbit = std::max(0, address.mbit.value_or(0));
    found.fastest = std::max(found.fastest, mbit);
    found.rdma = found.rdma || address.rdma;
    if (address.rdma) rdma += mbit;
  }
  found.all = std::max(found.fastest, rdma);
  return found;
}

const NodeInventory* Find(const RankLayout& layout, const NodeId& node) {
  for (const NodeShare& share : layout.nodes) {
    if (share.inventory->node == node) return share.inventory;
  }
  return nullptr;
}

struct Judged {
  double node_mbit = 0;     // what ranks of a node get by it
  double carried_mbit = 0;  // as measured
  double link_mbit = 0;     // of one adapter; 0: not known
  bool nccl = false;
};

// Absent: it says nothing of what ranks would get.
std::optional<Judged> JudgePair(const MeasuredPair& pair, const Adapters& a, const Adapters& b) {
  Judged judged;
  judged.link_mbit = std::min(a.fastest, b.fastest);
  double payload = 0;
  if (pair.link.nccl_mbit && *pair.link.nccl_mbit > 0) {
    judged.nccl = true;
    judged.carried_mbit = *pair.link.nccl_mbit;
    // A collective reaches this share of what the link carries, and the time model takes it off.
    payload = judged.carried_mbit / TimeConstants{}.network_share;
  } else if (pair.link.mbit && *pair.link.mbit > 0 && !(a.rdma && b.rdma)) {
    judged.carried_mbit = payload = *pair.link.mbit;
    if (payload >= kProgramFillsMbit && payload < judged.link_mbit) return std::nullopt;
  } else {
    return std::nullopt;
  }
  judged.node_mbit = judged.link_mbit > 0
                         ? std::min(a.all, b.all) * std::min(1.0, payload / judged.link_mbit)
                         : payload;
  return judged;
}

std::string Bytes(double mbit) {
  const double gbyte = mbit / kMbitOfGbyte;
  return gbyte >= 0.1 ? FormatNumber(gbyte, "%.2g GB/s") : FormatNumber(gbyte * 1000, "%.2g MB/s");
}

std::string Names(const MeasuredPair& pair) {
  return pair.first.value + " and " + pair.second.value;
}

std::string Ago(const MeasuredPair& pair) {
  return pair.age < Millis{60'000} ? "just now" : FormatDurationShort(pair.age) + " ago";
}

Finding SlowFinding(const MeasuredPair& pair, const Judged& judged) {
  Finding finding = MakeFinding(
      "network_slow", Severity::kWarning,
      "between " + Names(pair) + " " + Bytes(judged.carried_mbit) + " were measured " + Ago(pair) +
          ", and their adapters should carry " + Bytes(judged.link_mbit) +
          ": the plan counts on no more",
      "launch check --network " + pair.first.value + " " + pair.second.value +
          " measures them again and says where to look\nexclude_nodes: " + pair.second.value);
  finding.node = pair.first;
  return finding;
}

}  // namespace

NetworkSpeed NetworkOf(const RankLayout& layout, const std::vector<MeasuredPair>& measured) {
  NetworkSpeed speed;
  std::optional<double> slowest;
  for (const NodeShare& share : layout.nodes) {
    const double mbit = AdaptersOf(*share.inventory).all;
    if (mbit > 0) slowest = std::min(slowest.value_or(mbit), mbit);
  }
  std::optional<Judged> worst;
  const MeasuredPair* worst_pair = nullptr;
  for (const MeasuredPair& pair : measured) {
    const NodeInventory* a = Find(layout, pair.first);
    const NodeInventory* b = Find(layout, pair.second);
    if (a == nullptr || b == nullptr) continue;
    const auto judged = JudgePair(pair, AdaptersOf(*a), AdaptersOf(*b));
    if (!judged || (worst && worst->node_mbit <= judged->node_mbit)) continue;
    worst = judged;
    worst_pair = &pair;
  }
  if (worst) {
    slowest = std::min(slowest.value_or(worst->node_mbit), worst->node_mbit);
    speed.says = "network measured " + Bytes(worst->carried_mbit) +
                 (worst->nccl ? " by NCCL" : "") + " between " + Names(*worst_pair) + ", " +
                 Ago(*worst_pair);
    if (worst->link_mbit > 0 && worst->carried_mbit < kFarBelow * worst->link_mbit)
      speed.slow = SlowFinding(*worst_pair, *worst);
  }
  if (slowest) speed.node_gbps = *slowest / kMbitOfGbyte;
  return speed;
}

}  // namespace launch
