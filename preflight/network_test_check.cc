#include "preflight/network_test_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "preflight/host_check.h"

namespace launch {
namespace {

// A plain program on busy cores does not fill a fast interface: more is not expected of it.
constexpr double kMostExpectedMbit = 10'000;
// Far below: other traffic and busy cores halve a measurement easily, a wrong link divides by ten.
constexpr double kFarBelow = 0.25;

struct Pair {
  const TestedNode& from;
  const TestedNode& to;
  const PeerFact& fact;
};

std::vector<Pair> PairsOf(const std::vector<TestedNode>& nodes) {
  std::vector<Pair> pairs;
  for (const TestedNode& node : nodes) {
    for (const PeerFact& peer : node.facts.peers) {
      if (peer.place < 0 || static_cast<std::size_t>(peer.place) >= nodes.size()) continue;
      pairs.push_back({node, nodes[static_cast<std::size_t>(peer.place)], peer});
    }
  }
  return pairs;
}

std::string Speed(double mbit) {
  const bool fast = mbit >= 1000;
  const double tenths = std::round((fast ? mbit / 1000 : mbit) * 10) / 10;
  std::string text = std::to_string(tenths);
  text.resize(text.find('.') + 2);
  return text + (fast ? " Gbit/s" : " Mbit/s");
}

std::string Names(const Pair& pair) {
  return pair.from.inventory.node.value + " and " + pair.to.inventory.node.value;
}

// Speed of the interface that owns an address that the others used, else of the fastest.
std::optional<double> LinkOf(const NodeInventory& node, const std::string& address) {
  std::optional<double> fastest;
  for (const NetworkAddress& own : node.addresses) {
    if (own.address == address && own.mbit) return *own.mbit;
    if (own.mbit) fastest = std::max(fastest.value_or(0), static_cast<double>(*own.mbit));
  }
  return fastest;
}

double MedianSpeed(const std::vector<Pair>& pairs) {
  std::vector<double> speeds;
  for (const Pair& pair : pairs) {
    if (pair.fact.mbit) speeds.push_back(*pair.fact.mbit);
  }
  if (speeds.size() < 3) return 0;  // of two nobody knows which is the odd one
  std::nth_element(speeds.begin(), speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2),
                   speeds.end());
  return speeds[speeds.size() / 2];
}

void AddUnreachable(const Pair& pair, PreflightReport& report) {
  Finding finding = MakeFinding("network_unreachable", Severity::kError, pair.from.inventory.node,
                                pair.from.inventory.node.value + " cannot reach " +
                                    pair.to.inventory.node.value + " at " + pair.fact.address +
                                    ": " + (pair.fact.why.empty() ? "no answer" : pair.fact.why));
  finding.evidence = "a TCP connection to a free port there, both nodes ready for it";
  finding.remedy =
      "open all TCP ports between the nodes: NCCL and gloo connect each pair of ranks on free "
      "ports, not only to MASTER_PORT\nexclude_nodes: " +
      pair.to.inventory.node.value;
  Add(report, std::move(finding));
}

// False: it is as fast as it should be, nobody measured it, or there is no link.
bool JudgeSpeedOf(const Pair& pair, double median, NetworkCheck wanted, PreflightReport& report) {
  if (!pair.fact.mbit || IsOnOneMachine(pair.from.inventory, pair.fact.address)) return false;
  const double mbit = *pair.fact.mbit;
  const auto theirs = LinkOf(pair.to.inventory, pair.fact.address);
  const auto ours = LinkOf(pair.from.inventory, {});
  const double link = std::min({theirs.value_or(0), ours.value_or(0), kMostExpectedMbit});
  const bool below_link = link > 0 && mbit < kFarBelow * link;
  const bool below_others = median > 0 && mbit < kFarBelow * median;
  if (!below_link && !below_others) return false;
  const bool asked = wanted == NetworkCheck::kRequire;
  Finding finding = MakeFinding(
      "network_slow", asked ? Severity::kError : Severity::kWarning, pair.from.inventory.node,
      "the link between " + Names(pair) + " carries " + Speed(mbit) + ", " +
          (below_others ? "others of the job " + Speed(median)
                        : "its interfaces should carry " + Speed(link)) +
          ": each step waits for it");
  finding.evidence = "measured over TCP to " + pair.fact.address + ", the slower direction";
  finding.remedy =
      "look for a link that negotiated a low speed (ethtool), errors (ip -s link) or a route over "
      "another interface (ip route get " +
      pair.fact.address +
      "); name the right interface with env: {NCCL_SOCKET_IFNAME: NAME, "
      "GLOO_SOCKET_IFNAME: NAME}\nexclude_nodes: " +
      pair.to.inventory.node.value;
  finding.fix = {"ip route get " + pair.fact.address, "ip -s link"};
  Add(report, std::move(finding));
  return true;
}

void AddFailedGroup(const std::vector<TestedNode>& nodes, PreflightReport& report) {
  // The others of a group fail because one did: the first that says why stands for all.
  const auto failed = std::find_if(nodes.begin(), nodes.end(),
                                   [](const TestedNode& node) { return !node.facts.ok; });
  if (failed == nodes.end()) return;
  const std::string what = failed->facts.backend.empty()
                               ? "the test of the network between the nodes did not end well"
                               : "the all-reduce by " + failed->facts.backend + " did not work";
  Finding finding =
      MakeFinding("network_unreachable", Severity::kError, failed->inventory.node,
                  what + " on " + failed->inventory.node.value + ": " + failed->facts.why);
  for (const TestedNode& node : nodes) {
    finding.evidence += (finding.evidence.empty() ? "" : "; ") + node.inventory.node.value + ": " +
                        (node.facts.ok ? "ok" : node.facts.why);
  }
  finding.remedy =
      "name the interface that the nodes share with env: {GLOO_SOCKET_IFNAME: NAME, "
      "NCCL_SOCKET_IFNAME: NAME}, or leave this check out with preflight: {network: skip}";
  Add(report, std::move(finding), "all-reduce");
}

void AddLine(PreflightReport& report, std::string check, std::string says) {
  report.checks.push_back(
      {std::move(check), std::nullopt, CheckResult::kPass, std::move(says), ""});
}

void SayPair(const Pair& pair, PreflightReport& report) {
  std::string says = "to " + pair.to.inventory.node.value + " at " + pair.fact.address;
  if (pair.fact.mbit) says += ": " + Speed(*pair.fact.mbit);
  if (pair.fact.latency_us)
    says += ", " + std::to_string(std::lround(*pair.fact.latency_us)) + " us";
  Pass(report, "network", pair.from.inventory.node, std::move(says));
}

// The interfaces that the nodes were met at; a job whose nodes have more than one may need their
// name, or the same name on all.
void SayInterfaces(const std::vector<Pair>& pairs, PreflightReport& report) {
  std::set<std::string> names;
  for (const Pair& pair : pairs) {
    for (const NetworkAddress& own : pair.to.inventory.addresses) {
      if (own.address == pair.fact.address) names.insert(own.interface);
    }
  }
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  AddLine(report, "interface",
          "the nodes met over " + list + ": env: {NCCL_SOCKET_IFNAME: \"" + list +
              "\", GLOO_SOCKET_IFNAME: " + *names.begin() + "}");
}

void SayPairs(const std::vector<Pair>& pairs, PreflightReport& report) {
  const Pair* slowest = nullptr;
  for (const Pair& pair : pairs) {
    if (!pair.fact.mbit) continue;
    if (slowest == nullptr || *pair.fact.mbit < *slowest->fact.mbit) slowest = &pair;
  }
  std::string says = std::to_string(pairs.size()) +
                     (pairs.size() == 1 ? " pair of nodes meets" : " pairs of nodes meet");
  if (slowest != nullptr) {
    says += ", the slowest at " + Speed(*slowest->fact.mbit) + " (" + Names(*slowest) + ", " +
            std::to_string(std::lround(slowest->fact.latency_us.value_or(0))) + " us)";
  }
  AddLine(report, "network", std::move(says));
}

void SayGroup(const std::vector<TestedNode>& nodes, PreflightReport& report) {
  const NetworkFacts& facts = nodes.front().facts;
  if (facts.backend.empty()) {
    if (!facts.why.empty()) AddLine(report, "all-reduce", "not tested: " + facts.why);
    return;
  }
  AddLine(report, "all-reduce",
          facts.backend + " over " + std::to_string(nodes.size()) +
              " nodes gives the right sum: " + Speed(facts.allreduce_mbit.value_or(0)) + ", " +
              std::to_string(std::lround(facts.allreduce_us.value_or(0))) + " us for 8 KiB");
}

void AddFailedNccl(const TestedNode& node, PreflightReport& report) {
  Finding finding = MakeFinding("network_unreachable", Severity::kError, node.inventory.node,
                                "the all-reduce by NCCL did not work on " +
                                    node.inventory.node.value + ": " + node.facts.nccl->why);
  finding.evidence = "launch-nccl-test with the NCCL of the job's own torch";
  finding.remedy =
      "name the interface that the nodes share with env: {NCCL_SOCKET_IFNAME: NAME}; env: "
      "{NCCL_DEBUG: INFO} shows what NCCL tries; or leave this check out with preflight: "
      "{network: skip}";
  Add(report, std::move(finding), "NCCL");
}

// NCCL falls back to TCP without a word when it cannot use the adapters.
void AddPlainTcp(const TestedNode& node, PreflightReport& report) {
  Finding finding = MakeFinding("network_slow", Severity::kWarning, node.inventory.node,
                                "NCCL speaks TCP, although " + node.inventory.node.value +
                                    " has an InfiniBand or RoCE adapter");
  finding.evidence = "NCCL INFO Using network Socket";
  finding.remedy =
      "look for env: {NCCL_IB_DISABLE: ...}, for the adapter in the container (--device "
      "/dev/infiniband) and for the limit of locked memory; env: {NCCL_DEBUG: INFO} says why";
  Add(report, std::move(finding), "NCCL");
}

void JudgeNccl(const std::vector<TestedNode>& nodes, PreflightReport& report) {
  const auto& first = nodes.front().facts.nccl;
  // The others fail because one did: the first that says why stands for all.
  for (const TestedNode& node : nodes) {
    const auto& nccl = node.facts.nccl;
    if (nccl && nccl->tested && !nccl->ok) return AddFailedNccl(node, report);
  }
  if (!first) return;
  if (!first->tested) return AddLine(report, "NCCL", "not tested: " + first->why);
  AddLine(report, "NCCL",
          "NCCL " + first->version + " over " + std::to_string(nodes.size()) +
              " nodes gives the right sum: " + Speed(first->mbit.value_or(0)) + ", " +
              std::to_string(std::lround(first->us.value_or(0))) + " us for 8 KiB" +
              (first->transport.empty() ? "" : ", by " + first->transport));
  for (const TestedNode& node : nodes) {
    const auto& nccl = node.facts.nccl;
    if (nccl && nccl->transport == "Socket" && HasRdma(node.inventory)) {
      return AddPlainTcp(node, report);
    }
  }
}

}  // namespace

bool IsOnOneMachine(const NodeInventory& from, const std::string& address) {
  return address.starts_with("127.") || address == "::1" ||
         std::any_of(from.addresses.begin(), from.addresses.end(),
                     [&](const NetworkAddress& own) { return own.address == address; });
}

PreflightReport JudgeNetwork(NetworkCheck wanted, const std::vector<TestedNode>& nodes) {
  PreflightReport report;
  if (nodes.size() < 2 || wanted == NetworkCheck::kSkip) return report;
  const std::vector<Pair> pairs = PairsOf(nodes);
  const double median = MedianSpeed(pairs);
  bool all_meet = true;
  for (const Pair& pair : pairs) {
    if (!pair.fact.ok) {
      AddUnreachable(pair, report);
      all_meet = false;
    } else if (!JudgeSpeedOf(pair, median, wanted, report)) {
      SayPair(pair, report);
    }
  }
  if (all_meet) {
    AddFailedGroup(nodes, report);
    if (!pairs.empty()) SayPairs(pairs, report);
    SayInterfaces(pairs, report);
    const bool good = std::all_of(nodes.begin(), nodes.end(),
                                  [](const TestedNode& node) { return node.facts.ok; });
    if (good) SayGroup(nodes, report);
    JudgeNccl(nodes, report);
  }
  Sort(report);
  return report;
}

}  // namespace launch
