// Streams between agents and the controller's endpoint, as TCP has them: in order, no loss in the
// middle; what is cut stalls until it heals or an end gives up; each direction can be cut alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/node_messages.h"
#include "tests/sim/world.h"

namespace launch::sim {

class Network {
 public:
  using Stream = std::uint64_t;
  // What an end sees of a stream.
  struct Agents {
    std::function<void(const std::string& node, Stream, const ToNodeEnvelope&)> said;
    std::function<void(const std::string& node, Stream, const std::string& why)> closed;
  };
  struct Endpoint {
    std::function<void(const std::string& node, Stream, const FromNode&)> said;
    std::function<void(const std::string& node, Stream, const std::string& why)> closed;
  };

  Network(World& world, Agents agents, Endpoint endpoint);

  // Absent when no connection can be made now.
  std::optional<Stream> Open(const std::string& node);
  void SendUp(Stream stream, FromNode message);
  void SendDown(Stream stream, ToNodeEnvelope message);
  // That end is closed, by its process or because the process died; the other one hears of it after
  // what was written before.
  void CloseAgentEnd(Stream stream);
  void CloseEndpoint(Stream stream);
  // The endpoint's process died: all its ends are closed.
  void CloseAllEndpoints();
  // Both ends see a reset at once.
  void Reset(const std::string& node);
  // The last but `back` of the orders that the node was given comes again on its stream.
  void Repeat(const std::string& node, std::size_t back);

  void Cut(const std::string& node, bool up, bool down);
  void Heal(const std::string& node, bool up, bool down);
  void SetSlow(const std::string& node, std::int64_t ms) { lines_[node].slow = ms; }
  void HealAll();
  bool CanReach(const std::string& node) const;

 private:
  struct Item {  // a message, or the end of this direction
    std::int64_t due = 0;
    std::optional<FromNode> up;
    std::optional<ToNodeEnvelope> down;
  };
  struct Line {                    // between a node and the controller
    int cut_up = 0, cut_down = 0;  // how many faults cut it
    std::int64_t slow = 0;
  };
  struct Connection {
    std::string node;
    bool agent_open = true;
    bool endpoint_open = true;
    std::deque<Item> up, down;
  };
  void Put(Stream stream, bool up, Item item);
  void Pump(Stream stream, bool up);
  void GiveUpLater(const std::string& node);
  void EndAgent(Stream stream, const std::string& why);
  void EndEndpoint(Stream stream, const std::string& why);

  World& world_;
  const Agents agents_;
  const Endpoint endpoint_;
  Rng rng_;
  Rng heard_rng_;  // of Heard: for all else the kept histories draw what they drew before it
  std::map<std::string, Line> lines_;
  std::map<Stream, Connection> streams_;
  Stream next_ = 1;
  std::map<std::string, std::deque<ToNodeEnvelope>>
      orders_;  // that each node was given, last first
};

}  // namespace launch::sim
