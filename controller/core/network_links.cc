#include "controller/core/network_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "preflight/network_test_check.h"

namespace launch::controller {
namespace {

constexpr double kAgrees = 0.2;

bool Agree(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::abs(*a - *b) <= kAgrees * std::max(*a, *b);
}

// The same figures with a later date where they agree; NCCL's, where this test had none, stay as
// long as plain TCP says that the network is the same.
MeasuredLink Merged(const MeasuredLink& known, MeasuredLink found) {
  if (!Agree(known.mbit, found.mbit)) return found;
  if (!found.nccl_mbit && known.nccl_mbit) {
    found.nccl_mbit = known.nccl_mbit;
    found.transport = known.transport;
  }
  if (known.transport != found.transport || !Agree(known.nccl_mbit, found.nccl_mbit)) return found;
  MeasuredLink merged = known;
  merged.at = found.at;
  return merged;
}

// Of the group as a whole: what its slowest node saw; absent: NCCL was not tested, or failed.
std::optional<NcclFacts> NcclOf(const std::vector<NetworkFacts>& facts) {
  std::optional<NcclFacts> slowest;
  for (const NetworkFacts& one : facts) {
    if (!one.nccl || !one.nccl->tested || !one.nccl->ok || !one.nccl->mbit) return std::nullopt;
    if (!slowest || *one.nccl->mbit < *slowest->mbit) slowest = one.nccl;
  }
  return slowest;
}

// The slowest of all pairs as plain TCP measured it; 0: none was.
double SlowestOf(const std::vector<NetworkFacts>& facts) {
  double slowest = 0;
  for (const NetworkFacts& one : facts) {
    for (const PeerFact& peer : one.peers) {
      if (!peer.ok || !peer.mbit || *peer.mbit <= 0) continue;
      slowest = slowest == 0 ? *peer.mbit : std::min(slowest, *peer.mbit);
    }
  }
  return slowest;
}

using Found = std::map<NodeId, std::vector<MeasuredLink>>;

Found LinksOf(const State& state, const std::vector<NodeId>& nodes,
              const std::vector<NetworkFacts>& facts, WallTime now) {
  Found found;
  const std::optional<NcclFacts> nccl = NcclOf(facts);
  const double slowest = SlowestOf(facts);
  for (std::size_t place = 0; place < nodes.size(); ++place) {
    const NodeInventory* own = InventoryOf(state, nodes[place]);
    if (own == nullptr) continue;
    for (const PeerFact& peer : facts[place].peers) {
      const auto other = static_cast<std::size_t>(std::max(peer.place, 0));
      const bool is_measured = peer.ok && peer.mbit && *peer.mbit > 0;
      if (other >= nodes.size() || other == place || !is_measured) continue;
      if (IsOnOneMachine(*own, peer.address)) continue;
      MeasuredLink link;
      link.peer = std::max(nodes[place], nodes[other]);
      link.mbit = peer.mbit;
      link.latency_us = peer.latency_us;
      // The group is as fast as its slowest pair, which says nothing of a faster one.
      if (nccl && (nodes.size() == 2 || *peer.mbit <= slowest * (1 + kAgrees))) {
        link.nccl_mbit = nccl->mbit;
        link.transport = nccl->transport;
      }
      link.since = link.at = now;
      found[std::min(nodes[place], nodes[other])].push_back(std::move(link));
    }
  }
  return found;
}

std::string Speed(double mbit) {
  return mbit >= 1000 ? fmt::format("{:.3g} Gbit/s", mbit / 1000)
                      : fmt::format("{:.3g} Mbit/s", mbit);
}

std::string LinksInWords(const Found& found) {
  std::size_t pairs = 0;
  const MeasuredLink* slowest = nullptr;
  NodeId first;
  for (const auto& [node, links] : found) {
    for (const MeasuredLink& link : links) {
      ++pairs;
      if (slowest != nullptr && *slowest->mbit <= *link.mbit) continue;
      slowest = &link;
      first = node;
    }
  }
  if (slowest == nullptr) return {};
  std::string says =
      fmt::format("{} pair{} of nodes, the slowest {} and {} at {}", pairs, pairs == 1 ? "" : "s",
                  first.value, slowest->peer.value, Speed(*slowest->mbit));
  if (slowest->nccl_mbit) {
    says += fmt::format("; NCCL {}{}{}", Speed(*slowest->nccl_mbit),
                        slowest->transport.empty() ? "" : " by ", slowest->transport);
  }
  return says;
}

}  // namespace

LearntLinks LearnLinks(const State& state, const std::vector<NodeId>& nodes,
                       const std::vector<NetworkFacts>& facts, WallTime now) {
  LearntLinks learnt;
  if (facts.size() != nodes.size()) return learnt;
  const Found found = LinksOf(state, nodes, facts, now);
  for (const auto& [id, links] : found) {
    const auto known = state.nodes.find(id);
    if (known == state.nodes.end()) continue;
    std::map<NodeId, MeasuredLink> by_peer;
    for (const MeasuredLink& link : known->second.links.rows()) by_peer.emplace(link.peer, link);
    for (const MeasuredLink& link : links) {
      const auto before = by_peer.find(link.peer);
      by_peer[link.peer] = before == by_peer.end() ? link : Merged(before->second, link);
    }
    std::vector<MeasuredLink> rows;
    for (auto& [peer, link] : by_peer) {
      if (link.at + kLinksKept >= now && state.nodes.contains(peer))
        rows.push_back(std::move(link));
    }
    std::ranges::stable_sort(rows, std::greater(), &MeasuredLink::at);
    if (rows.size() > kMostLinks) rows.resize(kMostLinks);
    NodeRecord node = known->second;
    node.links = LinkTable(std::move(rows));
    if (node != known->second) learnt.nodes.push_back(std::move(node));
  }
  learnt.says = LinksInWords(found);
  return learnt;
}

std::vector<MeasuredPair> MeasuredBetween(const std::vector<effect::NodeOffer>& offers,
                                          const std::vector<std::size_t>& chosen, WallTime now,
                                          std::optional<WallTime> known_by) {
  std::set<NodeId> names;
  for (const std::size_t at : chosen) names.insert(offers[at].inventory->node);
  std::vector<MeasuredPair> pairs;
  for (const std::size_t at : chosen) {
    for (const MeasuredLink& link : offers[at].links.rows()) {
      if (!names.contains(link.peer) || link.at + kLinksKept < now) continue;
      if (known_by && link.since > *known_by) continue;
      pairs.push_back({offers[at].inventory->node, link.peer, link,
                       std::max(Millis{0}, std::chrono::duration_cast<Millis>(now - link.at))});
    }
  }
  return pairs;
}

}  // namespace launch::controller
