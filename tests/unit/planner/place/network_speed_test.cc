// What measurements of the network make of a plan.
#include "planner/place/network_speed.h"

#include <gtest/gtest.h>

#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

NodeInventory OnEthernet(const std::string& name, int mbit) {
  NodeInventory node = H100(name, 1);
  node.addresses.at(0).mbit = mbit;
  return node;
}

RankLayout LayoutOf(const std::vector<NodeInventory>& nodes) {
  RankLayout layout;
  for (const NodeInventory& node : nodes) layout.nodes.emplace_back().inventory = &node;
  return layout;
}

MeasuredPair Pair(const std::string& first, const std::string& second, std::optional<double> mbit,
                  std::optional<double> nccl = {}) {
  MeasuredPair pair{NodeId{first}, NodeId{second}, {}, Millis{3 * 3'600'000}};
  pair.link.peer = pair.second;
  pair.link.mbit = mbit;
  pair.link.nccl_mbit = nccl;
  return pair;
}

TEST(NetworkSpeed, IsThatOfTheSlowestAdapterWhileNothingWasMeasured) {
  const std::vector<NodeInventory> nodes = {OnEthernet("a", 100'000), OnEthernet("b", 25'000)};
  const NetworkSpeed speed = NetworkOf(LayoutOf(nodes), {});
  EXPECT_DOUBLE_EQ(*speed.node_gbps, 3.125);
  EXPECT_EQ(speed.says, "");
  EXPECT_FALSE(speed.slow);
}

TEST(NetworkSpeed, IsThatOfTheSlowestPairThatWasMeasured) {
  const std::vector<NodeInventory> nodes = {OnEthernet("a", 25'000), OnEthernet("b", 25'000),
                                            OnEthernet("c", 25'000)};
  const RankLayout layout = LayoutOf(nodes);
  const NetworkSpeed speed =
      NetworkOf(layout, {Pair("a", "b", 23'000), Pair("a", "c", 8'000), Pair("b", "c", 22'000),
                         Pair("a", "elsewhere", 10)});
  EXPECT_DOUBLE_EQ(*speed.node_gbps, 1.0);
  EXPECT_EQ(speed.says, "network measured 1 GB/s between a and c, 3h ago");
  EXPECT_FALSE(speed.slow) << "a third of the link may be other traffic";
  const NetworkSpeed slow = NetworkOf(layout, {Pair("a", "b", 23'000), Pair("b", "c", 940)});
  ASSERT_TRUE(slow.slow);
  EXPECT_EQ(slow.slow->code, "network_slow");
  EXPECT_EQ(slow.slow->node, NodeId{"b"});
  EXPECT_NE(slow.slow->says.find("between b and c 0.12 GB/s"), std::string::npos)
      << slow.slow->says;
  EXPECT_NE(slow.slow->remedy.find("check --network b c"), std::string::npos);
}

TEST(NetworkSpeed, WhatTheProgramCannotFillIsNoLimit) {
  const std::vector<NodeInventory> nodes = {OnEthernet("a", 200'000), OnEthernet("b", 200'000)};
  EXPECT_DOUBLE_EQ(*NetworkOf(LayoutOf(nodes), {Pair("a", "b", 31'000)}).node_gbps, 25.0);
  EXPECT_DOUBLE_EQ(*NetworkOf(LayoutOf(nodes), {Pair("a", "b", 9'000)}).node_gbps, 1.125);
}

TEST(NetworkSpeed, OfRdmaOnlyNcclTellsAndInTheProportionOfOneAdapter) {
  std::vector<NodeInventory> nodes = {OnEthernet("a", 10'000), OnEthernet("b", 10'000)};
  for (NodeInventory& node : nodes) {
    for (const char* name : {"ib0", "ib1"}) {
      NetworkAddress adapter = node.addresses.at(0);
      adapter.interface = name;
      adapter.mbit = 200'000;
      adapter.rdma = true;
      node.addresses.push_back(adapter);
    }
  }
  const RankLayout layout = LayoutOf(nodes);
  EXPECT_DOUBLE_EQ(*NetworkOf(layout, {Pair("a", "b", 9'400)}).node_gbps, 50.0);
  // 80 Gbit/s in a collective is what half of one adapter would give.
  const NetworkSpeed by_nccl = NetworkOf(layout, {Pair("a", "b", 9'400, 80'000)});
  EXPECT_DOUBLE_EQ(*by_nccl.node_gbps, 25.0);
  EXPECT_EQ(by_nccl.says, "network measured 10 GB/s by NCCL between a and b, 3h ago");
}

TEST(NetworkSpeed, IsKnownByAMeasurementWhereAdaptersDoNotTell) {
  std::vector<NodeInventory> nodes = {H100("a", 1), H100("b", 1)};
  for (NodeInventory& node : nodes) node.addresses.at(0).mbit.reset();
  EXPECT_FALSE(NetworkOf(LayoutOf(nodes), {}).node_gbps);
  const NetworkSpeed speed = NetworkOf(LayoutOf(nodes), {Pair("a", "b", 4'000)});
  EXPECT_DOUBLE_EQ(*speed.node_gbps, 0.5);
  EXPECT_FALSE(speed.slow);
}

// Two nodes of 4 GPUs on a fast network: the same job, once as the adapters promise and once as the
// network was measured.
TEST(NetworkSpeed, ASlowNetworkChangesWhatIsChosen) {
  std::vector<NodeInventory> nodes;
  for (const char* name : {"a", "b"}) {
    NodeInventory node = Node(name, "NVIDIA A100-SXM4-80GB", "8.0", 81920, 4);
    node.addresses.at(0).mbit = 800'000;
    nodes.push_back(node);
  }
  JobSpec job = GpuJob(4, "A100", 2);
  job.model.fields = Llama7B();
  job.model.fields.erase("activation_checkpointing");
  job.batch = {64, {}, {}};
  job.steps = 100;
  const auto offers = Offers(nodes);
  const auto placement = Place(job, offers);
  ASSERT_TRUE(placement);
  const auto plan = [&](std::vector<MeasuredPair> measured) {
    PlanInput input{job, Context(), ReadLineOf(job, {}), offers, *placement, std::nullopt, "ana"};
    input.network = std::move(measured);
    auto run = MakePlan(input);
    EXPECT_TRUE(run) << ErrorOf(run);
    return run->plan;
  };
  const Plan fast = plan({});
  const Plan slow = plan({Pair("a", "b", 940)});
  EXPECT_GT(*slow.duration.step_seconds, 2 * *fast.duration.step_seconds);
  EXPECT_EQ(slow.duration.bound, "network");
  EXPECT_NE(fast.duration.bound, "network");
  const bool other = slow.strategy != fast.strategy || slow.batch.micro != fast.batch.micro ||
                     slow.checkpointing != fast.checkpointing;
  EXPECT_TRUE(other) << ToString(slow.strategy) << " micro " << *slow.batch.micro;
  EXPECT_NE(slow.why.find("network measured 0.12 GB/s between a and b, 3h ago"), std::string::npos)
      << slow.why;
  EXPECT_NE(FindingOf(slow, "network_slow"), nullptr);
  EXPECT_EQ(FindingOf(fast, "network_slow"), nullptr);
}

}  // namespace
}  // namespace launch
