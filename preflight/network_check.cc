#include "preflight/network_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/quoted.h"

namespace launch {
namespace {

constexpr int kSlowMbit = 10'000;  // below it gradients of a large model take longer than steps
constexpr std::int64_t kSkewMs = 5'000;  // checkpoints are ordered by time, tokens expire by it

bool IsLoopback(const NetworkAddress& address) {
  return address.interface == "lo" || address.address.rfind("127.", 0) == 0 ||
         address.address == "::1";
}

using InterfaceNames = std::set<std::string>;

// Interfaces that every node of the job has; a bridge for containers on one of them leads nowhere.
InterfaceNames SharedNames(const std::vector<NodeCase>& nodes) {
  std::map<std::string, std::size_t> on;
  for (const NodeCase& c : nodes) {
    InterfaceNames own;
    for (const NetworkAddress& address : c.node.addresses) {
      if (!IsLoopback(address)) own.insert(address.interface);
    }
    for (const std::string& name : own) ++on[name];
  }
  InterfaceNames shared;
  for (const auto& [name, count] : on) {
    if (count == nodes.size()) shared.insert(name);
  }
  return shared;
}

// The address that stands first is the one the node prefers; a faster one wins (MasterCandidates).
// Of any name when the nodes have none in common.
const NetworkAddress* FastestOf(const NodeInventory& node, const InterfaceNames& shared) {
  const NetworkAddress* best = nullptr;
  for (const NetworkAddress& address : node.addresses) {
    if (IsLoopback(address)) continue;
    if (!shared.empty() && !shared.contains(address.interface)) continue;
    if (best == nullptr || address.mbit.value_or(0) > best->mbit.value_or(0)) best = &address;
  }
  return best;
}

std::string Gbit(int mbit) {
  return mbit % 1000 == 0 ? std::to_string(mbit / 1000) + " Gbit/s"
                          : std::to_string(mbit) + " Mbit/s";
}

void JudgeSpeed(const NodeCase& c, const InterfaceNames& shared, PreflightReport& report) {
  const NetworkAddress* link = FastestOf(c.node, shared);
  if (link == nullptr || !link->mbit) return;
  const std::string what = link->interface + On(c.node) + " has " + Gbit(*link->mbit);
  const bool gpus = c.plan.device == DeviceClass::kCuda;
  if (*link->mbit >= kSlowMbit || !gpus) {
    Pass(report, "link speed", c.node.node, what);
    return;
  }
  const bool asked = c.spec.preflight_network == NetworkCheck::kRequire;
  Finding finding =
      MakeFinding("network_slow", asked ? Severity::kError : Severity::kNotice, c.node.node,
                  what + ": gradients of " + std::to_string(c.plan.world_size) +
                      " ranks go through it at each step");
  finding.evidence = "speed of the interface as its driver says";
  finding.remedy = "use nodes with a faster network, more batch.accumulate per step, or one node";
  Add(report, std::move(finding));
}

void JudgeMtu(const std::vector<NodeCase>& nodes, const InterfaceNames& shared,
              PreflightReport& report) {
  std::set<int> sizes;
  std::string evidence;
  for (const NodeCase& c : nodes) {
    const NetworkAddress* link = FastestOf(c.node, shared);
    if (link == nullptr || !link->mtu) return;
    sizes.insert(*link->mtu);
    evidence += (evidence.empty() ? "" : "; ") + c.node.node.value + " " + link->interface + " " +
                std::to_string(*link->mtu);
  }
  if (sizes.size() < 2) return;
  for (const NodeCase& c : nodes) {
    const NetworkAddress* link = FastestOf(c.node, shared);
    if (*link->mtu != *sizes.begin()) continue;
    Finding finding =
        MakeFinding("network_slow", Severity::kWarning, c.node.node,
                    link->interface + On(c.node) + " has MTU " + std::to_string(*link->mtu) +
                        ", another node of the job " + std::to_string(*sizes.rbegin()) +
                        ": large packets are lost or cut between them");
    finding.evidence = evidence;
    const std::string command = "ip link set dev " + ShellQuote(link->interface) + " mtu " +
                                std::to_string(*sizes.rbegin());
    finding.remedy = command + ", if the switch carries that size";
    finding.fix = {command};
    Add(report, std::move(finding));
  }
}

}  // namespace

void JudgeLinks(const std::vector<NodeCase>& nodes, PreflightReport& report) {
  if (nodes.size() < 2 || nodes.front().spec.preflight_network == NetworkCheck::kSkip) return;
  const InterfaceNames shared = SharedNames(nodes);
  for (const NodeCase& c : nodes) JudgeSpeed(c, shared, report);
  JudgeMtu(nodes, shared, report);
}

void JudgeReach(const StagingFacts& facts, const NodeInventory& node, PreflightReport& report) {
  if (facts.reach.empty()) return;
  std::string tried;
  for (const Reachability& reach : facts.reach) {
    if (reach.ok) {
      Pass(report, "network", node.node,
           node.node.value + " reaches rank 0's node at " + reach.address);
      return;
    }
    tried += (tried.empty() ? "" : "; ") + reach.address + ": " +
             (reach.why.empty() ? "no answer" : reach.why);
  }
  Finding finding = MakeFinding("network_unreachable", Severity::kError, node.node,
                                node.node.value + " cannot reach rank 0's node");
  finding.evidence = tried;
  finding.remedy =
      "open the agents' port range between the nodes, or exclude this node with exclude_nodes: " +
      node.node.value;
  Add(report, std::move(finding));
}

void JudgeClocks(const std::map<NodeId, std::int64_t>& offsets_ms, PreflightReport& report) {
  if (offsets_ms.size() < 2) return;
  const auto by_offset = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [low, high] = std::minmax_element(offsets_ms.begin(), offsets_ms.end(), by_offset);
  const std::int64_t apart = high->second - low->second;
  if (apart < kSkewMs) {
    Pass(report, "clock", low->first, "clocks are at most " + std::to_string(apart) + " ms apart");
    return;
  }
  // The node that is further from the controller's own clock is the one to mend.
  const auto& wrong = high->second + low->second > 0 ? *high : *low;
  const auto& right = &wrong == &*high ? *low : *high;
  Finding finding =
      MakeFinding("clock_skew", Severity::kWarning, wrong.first,
                  "the clock of " + wrong.first.value + " is " + std::to_string(apart / 1000) +
                      " s away from that of " + right.first.value +
                      ": checkpoints, logs and certificates go by time");
  for (const auto& [node, offset] : offsets_ms) {
    finding.evidence +=
        (finding.evidence.empty() ? "" : "; ") + node.value + " " + std::to_string(offset) + " ms";
  }
  finding.remedy = "chronyc makestep, or systemctl restart systemd-timesyncd";
  finding.fix = {"chronyc makestep || systemctl restart systemd-timesyncd"};
  Add(report, std::move(finding));
}

}  // namespace launch
