// A node in one line per step: an agent core, the orders it gave, a clock that tests set.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/core/agent_core.h"

namespace launch::agent {

inline const GpuUuid kGpu0{"GPU-0"};
inline const GpuUuid kGpu1{"GPU-1"};

inline Key KeyOf(std::uint64_t job, std::uint32_t attempt) {
  return {JobId{job}, Attempt{attempt}};
}

inline NodeInventory TwoGpuInventory() {
  NodeInventory inventory{.node = NodeId{"n1"}, .cores = 8};
  inventory.gpus = {GpuDevice{.uuid = kGpu0}, GpuDevice{.uuid = kGpu1}};
  return inventory;
}

inline AllocationSpec TwoRankSpec(const Key& key) {
  AllocationSpec spec{.key = key, .node = NodeId{"n1"}, .user = "ana", .gpus = {kGpu0, kGpu1}};
  spec.gpu_indices = {0, 1};
  spec.ranks = {RankSpec{.rank = 0}, RankSpec{.rank = 1, .local_rank = 1}};
  spec.stop.grace = Millis{5000};
  return spec;
}

inline AgentIdentity TestIdentity() {
  return {.node = NodeId{"n1"}, .version = "1", .boot_id = "boot-a", .account = UserName{"ana"}};
}

class Rig {
 public:
  explicit Rig(const RunnerState& found = {}) {
    Recovery recovery = Recover(TestIdentity(), found, now);
    state = std::move(recovery.state);
    orders = std::move(recovery.orders);
  }

  void Tell(Told event) {
    for (Order& order : Step(state, event, now)) orders.push_back(std::move(order));
  }
  void Receive(ToNode body) {
    Tell(told::FromController{stream,
                              {.fence = fence, .session = session, .body = std::move(body)}});
  }
  void GiveInventory(NodeInventory inventory = TwoGpuInventory()) {
    Tell(told::Inventory{std::move(inventory), {}});
  }
  void Connect() {
    Tell(told::LinkUp{++stream});
    ++session;
    Receive(to_node::Welcome{.cluster = "c"});
  }
  void Cut() { Tell(told::LinkDown{stream, "cut"}); }
  void After(Millis time) {
    now += time;
    Tell(told::Tick{});
  }

  void Prepare(const AllocationSpec& spec, std::string digest = "d1") {
    Receive(to_node::Prepare{spec, std::move(digest), {}});
  }
  void Accept(const AllocationSpec& spec) {
    Prepare(spec);
    Tell(told::AcceptDone{spec.key, std::optional<PortBlock>(PortBlock{20000, 4})});
  }
  void Go(const Key& key, std::string digest = "d1") {
    Receive(to_node::Go{.key = key, .digest = std::move(digest), .master_port = 20000});
  }
  void StartAll(const Key& key) { Tell(told::StartDone{key, {{0, 100}, {1, 101}}, std::nullopt}); }
  void Run(const AllocationSpec& spec) {
    Accept(spec);
    Go(spec.key);
    StartAll(spec.key);
  }
  void End(const Key& key, Rank rank, int code = 0) {
    Tell(told::RankEnded{ExitReport{.key = key, .rank = rank, .cause = Exited{code}}});
  }
  void StopDone(const Key& key, std::vector<std::pair<GpuUuid, std::string>> held = {}) {
    Tell(told::StopDone{key, std::move(held), {{0, 10}, {1, 20}}});
  }

  // All messages or orders of one kind since the last Clear.
  template <class M>
  std::vector<M> Sent() const {
    std::vector<M> found;
    for (const Order& order : orders)
      if (const auto* send = std::get_if<order::Send>(&order))
        if (const auto* message = std::get_if<M>(&send->message)) found.push_back(*message);
    return found;
  }
  template <class O>
  std::vector<O> Ordered() const {
    std::vector<O> found;
    for (const Order& order : orders)
      if (const auto* one = std::get_if<O>(&order)) found.push_back(*one);
    return found;
  }
  std::string RefusalCode() const {
    const auto refusals = Sent<from_node::Refused>();
    return refusals.empty() ? "" : refusals.back().stage + " " + refusals.back().code;
  }
  void Clear() { orders.clear(); }
  Phase PhaseOf(const Key& key) const { return state.allocations.at(key).phase; }

  BootTime now = BootMs(1'000'000);
  Fence fence{.incarnation = 1, .epoch = 1, .revision = 1};
  std::uint64_t stream = 0;
  std::uint64_t session = 0;
  AgentState state;
  std::vector<Order> orders;
};

// Connected, with an inventory, nothing in `orders`.
inline Rig ConnectedRig(const RunnerState& found = {}) {
  Rig rig(found);
  rig.GiveInventory();
  rig.Connect();
  rig.Clear();
  return rig;
}

}  // namespace launch::agent
