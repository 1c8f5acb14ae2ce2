#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace launch::sim {
namespace {

constexpr std::size_t kMostInFlight = 20'000;  // C8: nothing may pile up without end
constexpr std::size_t kOrdersKept = 20;        // per node, to be repeated

bool IsOrder(const ToNode& body) {
  return std::holds_alternative<to_node::Prepare>(body) ||
         std::holds_alternative<to_node::Stage>(body) ||
         std::holds_alternative<to_node::Go>(body) || std::holds_alternative<to_node::Stop>(body);
}

std::string Describe(const std::string& node, const std::optional<FromNode>& up,
                     const std::optional<ToNodeEnvelope>& down) {
  static constexpr const char* kUp[] = {
      "Hello", "Beat",    "Samples",    "InventoryChanged", "Accepted", "Refused", "Staging",
      "Ready", "Started", "RankExited", "Released",         "Notice",   "Stacks",  "Heard"};
  static constexpr const char* kDown[] = {"Welcome", "Pong",          "Prepare", "Stage",
                                          "Go",      "Stop",          "ExitAck", "Forget",
                                          "Retest",  "CollectStacks", "OpenExec"};
  const auto key = [](const auto& message) -> std::string {
    if constexpr (requires { message.key.job; }) return " " + ToString(message.key);
    if constexpr (requires { message.spec.key; }) return " " + ToString(message.spec.key);
    if constexpr (requires { message.report.key; }) return " " + ToString(message.report.key);
    return "";
  };
  return up ? node + " says " + kUp[up->index()] + std::visit(key, *up)
            : node + " is told " + kDown[down->body.index()] + std::visit(key, down->body);
}

}  // namespace

Network::Network(World& world, Agents agents, Endpoint endpoint)
    : world_(world),
      agents_(std::move(agents)),
      endpoint_(std::move(endpoint)),
      rng_(world.options.seed, "network"),
      heard_rng_(world.options.seed, "heard") {}

bool Network::CanReach(const std::string& node) const {
  const auto line = lines_.find(node);
  return line == lines_.end() || (line->second.cut_up == 0 && line->second.cut_down == 0);
}

std::optional<Network::Stream> Network::Open(const std::string& node) {
  if (!CanReach(node)) return std::nullopt;
  streams_[next_].node = node;
  return next_++;
}

void Network::Put(Stream stream, bool up, Item item) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  Connection& connection = found->second;
  std::deque<Item>& queue = up ? connection.up : connection.down;
  const std::int64_t slow = lines_[connection.node].slow;
  const bool heard = item.up && std::holds_alternative<from_node::Heard>(*item.up);
  Rng& rng = heard ? heard_rng_ : rng_;
  const std::int64_t arrives =
      world_.now + rng.Between(1, 60) + (slow > 0 ? rng.Between(0, slow) : 0);
  item.due = queue.empty() ? arrives : std::max(arrives, queue.back().due);
  queue.push_back(std::move(item));
  if (queue.size() > kMostInFlight) {
    world_.Violation("C8 " + std::to_string(queue.size()) + " messages wait on the stream of " +
                     connection.node);
  }
  if (queue.size() == 1) {
    world_.At(queue.front().due - world_.now, [this, stream, up] { Pump(stream, up); });
  }
}

void Network::SendUp(Stream stream, FromNode message) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !found->second.agent_open) return;
  Put(stream, true, {0, std::move(message), std::nullopt});
}

void Network::SendDown(Stream stream, ToNodeEnvelope message) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !found->second.endpoint_open) return;
  Put(stream, false, {0, std::nullopt, std::move(message)});
}

void Network::Pump(Stream stream, bool up) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  Connection& connection = found->second;
  std::deque<Item>& queue = up ? connection.up : connection.down;
  if (queue.empty()) return;
  const Line& line = lines_[connection.node];
  if ((up ? line.cut_up : line.cut_down) > 0) {
    world_.At(200, [this, stream, up] { Pump(stream, up); });
    return;
  }
  Item item = std::move(queue.front());
  queue.pop_front();
  if (!queue.empty()) {
    world_.At(std::max<std::int64_t>(queue.front().due - world_.now, 0),
              [this, stream, up] { Pump(stream, up); });
  }
  const std::string node = connection.node;
  const bool reads = up ? connection.endpoint_open : connection.agent_open;
  if (!item.up && !item.down) {  // the other end closed after all it wrote
    up ? EndEndpoint(stream, "closed by the agent") : EndAgent(stream, "closed");
    return;
  }
  if (!reads) {  // nobody reads any more: a reset comes back
    queue.clear();
    world_.At(rng_.Between(1, 60), [this, stream, up] {
      up ? EndAgent(stream, "reset by peer") : EndEndpoint(stream, "reset by peer");
    });
    return;
  }
  if (world_.options.trace) {
    world_.Trace(Describe(node, item.up, item.down) + " on stream " + std::to_string(stream));
  }
  if (item.down) {
    if (IsOrder(item.down->body)) {
      std::deque<ToNodeEnvelope>& orders = orders_[node];
      orders.push_front(*item.down);
      if (orders.size() > kOrdersKept) orders.pop_back();
    }
    agents_.said(node, stream, *item.down);
  } else {
    endpoint_.said(node, stream, *item.up);
  }
}

void Network::EndAgent(Stream stream, const std::string& why) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !found->second.agent_open) return;
  found->second.agent_open = false;
  const std::string node = found->second.node;
  Put(stream, true, {});
  agents_.closed(node, stream, why);
}

void Network::EndEndpoint(Stream stream, const std::string& why) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !found->second.endpoint_open) return;
  found->second.endpoint_open = false;
  const std::string node = found->second.node;
  Put(stream, false, {});
  endpoint_.closed(node, stream, why);
}

void Network::CloseAgentEnd(Stream stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !found->second.agent_open) return;
  found->second.agent_open = false;
  Put(stream, true, {});
}

void Network::CloseEndpoint(Stream stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !found->second.endpoint_open) return;
  found->second.endpoint_open = false;
  Put(stream, false, {});
}

void Network::CloseAllEndpoints() {
  for (auto& [stream, connection] : streams_) CloseEndpoint(stream);
}

void Network::Reset(const std::string& node) {
  for (auto& [stream, connection] : streams_) {
    if (connection.node != node || (!connection.agent_open && !connection.endpoint_open)) continue;
    connection.up.clear();
    connection.down.clear();
    const Stream id = stream;
    world_.At(rng_.Between(0, 300), [this, id] { EndAgent(id, "reset"); });
    world_.At(rng_.Between(0, 300), [this, id] { EndEndpoint(id, "reset"); });
  }
}

void Network::Repeat(const std::string& node, std::size_t back) {
  const std::deque<ToNodeEnvelope>& orders = orders_[node];
  if (orders.empty()) return;
  for (const auto& [stream, connection] : streams_) {
    if (connection.node != node || !connection.agent_open || !connection.endpoint_open) continue;
    SendDown(stream, orders[std::min(back, orders.size()) - 1]);
    return;
  }
}

// Keepalives: each end finds out by itself, some time after the other or before it.
void Network::GiveUpLater(const std::string& node) {
  for (auto& [stream, connection] : streams_) {
    if (connection.node != node) continue;
    const Stream id = stream;
    const auto while_cut = [this, node, id](auto end) {
      return [this, node, id, end] {
        if (!CanReach(node)) (this->*end)(id, "keepalive");
      };
    };
    if (connection.agent_open) {
      world_.At(rng_.Between(1'000, 20'000), while_cut(&Network::EndAgent));
    }
    if (connection.endpoint_open) {
      world_.At(rng_.Between(1'000, 40'000), while_cut(&Network::EndEndpoint));
    }
  }
}

void Network::Cut(const std::string& node, bool up, bool down) {
  lines_[node].cut_up += up ? 1 : 0;
  lines_[node].cut_down += down ? 1 : 0;
  GiveUpLater(node);
}

void Network::Heal(const std::string& node, bool up, bool down) {
  Line& line = lines_[node];
  if (up && line.cut_up > 0) --line.cut_up;
  if (down && line.cut_down > 0) --line.cut_down;
}

void Network::HealAll() {
  for (auto& [node, line] : lines_) line = Line{};
}

}  // namespace launch::sim
