#include <gtest/gtest.h>

#include "agent_rig.h"

namespace launch::agent {
namespace {

TEST(AgentLink, SaysHelloOnlyWhenItKnowsItsInventory) {
  Rig rig;
  rig.Tell(told::LinkUp{1});
  EXPECT_TRUE(rig.Sent<from_node::Hello>().empty());
  rig.GiveInventory();
  ASSERT_EQ(rig.Sent<from_node::Hello>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].boot_id, "boot-a");
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].inventory.revision, 1u);
}

TEST(AgentLink, SaysNothingButHelloBeforeWelcome) {
  Rig rig;
  rig.GiveInventory();
  rig.Tell(told::LinkUp{1});
  rig.Clear();
  rig.Tell(told::Sampled{});
  rig.After(Millis{5000});
  EXPECT_TRUE(rig.orders.empty());
}

TEST(AgentLink, BeatsAtTheIntervalOfWelcomeWithTheAgeOfTheLastPong) {
  Rig rig;
  rig.GiveInventory();
  rig.Tell(told::LinkUp{1});
  rig.stream = 1;
  rig.Receive(to_node::Welcome{.beat_ms = 200});
  EXPECT_EQ(NextDeadline(rig.state), rig.now);
  rig.After(Millis{0});
  rig.After(Millis{199});
  EXPECT_EQ(rig.Sent<from_node::Beat>().size(), 1u);
  rig.After(Millis{1});
  ASSERT_EQ(rig.Sent<from_node::Beat>().size(), 2u);
  EXPECT_EQ(rig.Sent<from_node::Beat>()[1].pong_age_ms, 200);
  EXPECT_EQ(rig.Sent<from_node::Beat>()[1].n, 2u);
  rig.Receive(to_node::Pong{2});
  rig.After(Millis{200});
  EXPECT_EQ(rig.Sent<from_node::Beat>()[2].pong_age_ms, 200);
}

TEST(AgentLink, SaysAtOnceThatAPongCame) {
  Rig rig = ConnectedRig();
  rig.Receive(to_node::Pong{.n = 7, .wants_heard = true});
  ASSERT_EQ(rig.Sent<from_node::Heard>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Heard>()[0].n, 7u);
}

TEST(AgentLink, SaysNothingOfAPongToAControllerOfBeforeHeard) {
  Rig rig = ConnectedRig();
  rig.Receive(to_node::Pong{.n = 7});
  EXPECT_TRUE(rig.Sent<from_node::Heard>().empty());
}

TEST(AgentLink, ReportsAnInventoryOnlyWhenItChanged) {
  Rig rig = ConnectedRig();
  rig.GiveInventory();
  EXPECT_TRUE(rig.orders.empty());
  NodeInventory changed = TwoGpuInventory();
  changed.gpus[1].health = Health::kBad;
  rig.GiveInventory(changed);
  ASSERT_EQ(rig.Sent<from_node::InventoryChanged>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::InventoryChanged>()[0].inventory.revision, 2u);
}

TEST(AgentLink, AChangeWhileCutIsToldInTheNextHello) {
  Rig rig = ConnectedRig();
  rig.Cut();
  NodeInventory changed = TwoGpuInventory();
  changed.cores = 4;
  rig.GiveInventory(changed);
  EXPECT_TRUE(rig.orders.empty());
  rig.Connect();
  EXPECT_EQ(rig.Sent<from_node::Hello>().back().inventory.cores, 4);
}

TEST(AgentLink, AChangeBetweenHelloAndWelcomeIsNotLost) {
  Rig rig;
  rig.GiveInventory();
  rig.Tell(told::LinkUp{++rig.stream});
  NodeInventory changed = TwoGpuInventory();
  changed.cores = 4;
  rig.GiveInventory(changed);
  rig.Receive(to_node::Welcome{});
  ASSERT_EQ(rig.Sent<from_node::InventoryChanged>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::InventoryChanged>()[0].inventory.cores, 4);
}

TEST(AgentLink, WhatWasAcceptedBetweenHelloAndWelcomeIsTold) {
  Rig rig = ConnectedRig();
  rig.Prepare(TwoRankSpec(KeyOf(1, 1)));
  rig.Tell(told::LinkUp{++rig.stream});
  ASSERT_TRUE(rig.Sent<from_node::Hello>().back().allocations.empty());
  rig.Tell(told::AcceptDone{KeyOf(1, 1), std::optional<PortBlock>(PortBlock{20000, 4})});
  EXPECT_TRUE(rig.Sent<from_node::Accepted>().empty());
  ++rig.session;
  rig.Receive(to_node::Welcome{.cluster = "c"});
  ASSERT_EQ(rig.Sent<from_node::Accepted>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Accepted>()[0].key, KeyOf(1, 1));
}

TEST(AgentLink, IgnoresMessagesOfAnOlderStream) {
  Rig rig = ConnectedRig();
  rig.Tell(told::LinkUp{++rig.stream});
  rig.Clear();
  rig.Tell(told::FromController{rig.stream - 1,
                                {rig.fence, rig.session, to_node::Stop{.key = KeyOf(1, 1)}}});
  EXPECT_TRUE(rig.orders.empty());
  rig.Tell(told::LinkDown{rig.stream - 1, "late"});
  EXPECT_TRUE(rig.state.link.up);
}

TEST(AgentLink, ANewerStreamClosesTheOlder) {
  Rig rig = ConnectedRig();
  rig.Tell(told::LinkUp{rig.stream + 1});
  ASSERT_EQ(rig.Ordered<order::CloseLink>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::CloseLink>()[0].stream, rig.stream);
}

TEST(AgentLink, IgnoresMessagesOfAnotherSession) {
  Rig rig = ConnectedRig();
  --rig.session;
  rig.Receive(to_node::Stop{.key = KeyOf(1, 1)});
  EXPECT_TRUE(rig.orders.empty());
}

TEST(AgentFence, SavesAHigherEpochBeforeItObeys) {
  Rig rig = ConnectedRig();
  rig.fence.epoch = 2;
  rig.Receive(to_node::Stop{.key = KeyOf(1, 1)});
  ASSERT_EQ(rig.orders.size(), 2u);
  ASSERT_TRUE(std::holds_alternative<order::SaveFence>(rig.orders[0]));
  EXPECT_EQ(std::get<order::SaveFence>(rig.orders[0]).fence.epoch, 2u);
  EXPECT_TRUE(std::holds_alternative<order::StopAllocation>(rig.orders[1]));
}

TEST(AgentFence, ClosesTheLinkOfALowerEpochAndObeysNothingOfIt) {
  Rig rig = ConnectedRig();
  rig.fence.epoch = 2;
  rig.Receive(to_node::Pong{1});
  rig.Clear();
  rig.fence.epoch = 1;
  rig.Receive(to_node::Stop{.key = KeyOf(1, 1)});
  ASSERT_EQ(rig.orders.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<order::CloseLink>(rig.orders[0]));
  rig.fence.epoch = 2;
  rig.Receive(to_node::Stop{.key = KeyOf(1, 1)});
  EXPECT_EQ(rig.orders.size(), 1u) << "a closed stream is not heard again";
}

TEST(AgentFence, AHigherIncarnationWinsWithALowerEpoch) {
  Rig rig = ConnectedRig();
  rig.fence = {.incarnation = 2, .epoch = 0, .revision = 0};
  rig.Receive(to_node::Stop{.key = KeyOf(1, 1)});
  EXPECT_EQ(rig.state.fence, rig.fence);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
}

TEST(AgentFence, RemembersTheFenceOfItsLastLife) {
  RunnerState found;
  found.fence = {.incarnation = 1, .epoch = 7, .revision = 9};
  Rig rig(found);
  rig.GiveInventory();
  rig.Tell(told::LinkUp{++rig.stream});
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].seen, found.fence);
  rig.Receive(to_node::Welcome{});
  EXPECT_EQ(rig.Ordered<order::CloseLink>().size(), 1u);
}

TEST(AgentFence, ARevisionIsSavedWhileTheRunnerWorksAndBeforeItsAnswerIsTold) {
  Rig rig = ConnectedRig();
  rig.fence.revision = 50;
  rig.Prepare(TwoRankSpec(KeyOf(1, 1)));
  ASSERT_EQ(rig.orders.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<order::Accept>(rig.orders[0]));
  EXPECT_EQ(std::get<order::SaveFence>(rig.orders[1]).fence.revision, 50u);
  EXPECT_EQ(rig.state.fence.revision, 50u);
}

// Carries out what Act asks for, with a disk that takes a fence or not.
struct Disk {
  explicit Disk(Rig& of) : rig(of) {}
  void Act(const Told& event) {
    agent::Act(rig.state, event, rig.now, [this](const Order& order) -> Result<void> {
      rig.orders.push_back(order);
      if (full && std::holds_alternative<order::SaveFence>(order))
        return Fail(ErrorCode::kResourceExhausted, "write fence.tmp: no space left on device");
      return {};
    });
  }
  void Receive(ToNode body) {
    Act(told::FromController{
        rig.stream, {.fence = rig.fence, .session = rig.session, .body = std::move(body)}});
  }
  Rig& rig;
  bool full = true;
};

TEST(AgentFence, AJobIsCancelledOnAFullDiskAndTheRevisionIsSavedLater) {
  Rig rig = ConnectedRig();
  Disk disk(rig);
  rig.Run(TwoRankSpec(KeyOf(1, 1)));
  rig.Clear();
  rig.fence.revision = 50;
  disk.Receive(to_node::Stop{.key = KeyOf(1, 1)});
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  ASSERT_EQ(rig.Sent<from_node::Notice>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Notice>()[0].kind, "node.state_write_failed");
  EXPECT_TRUE(rig.Ordered<order::CloseLink>().empty());

  rig.Clear();
  rig.now += kFenceRetry;
  ASSERT_LE(NextDeadline(rig.state), rig.now);
  disk.Act(told::Tick{});
  EXPECT_EQ(rig.Ordered<order::SaveFence>().size(), 1u) << "tried again";
  EXPECT_TRUE(rig.Sent<from_node::Notice>().empty()) << "but said once";

  rig.now += kFenceRetry;
  disk.full = false;
  disk.Act(told::Tick{});
  EXPECT_EQ(rig.Ordered<order::SaveFence>().back().fence.revision, 50u);
  EXPECT_EQ(rig.state.fence_retry_at, std::nullopt);
}

TEST(AgentFence, ObeysNothingOfANewLeaderThatItCannotSaveAndDialsAgain) {
  Rig rig = ConnectedRig();
  Disk disk(rig);
  rig.Run(TwoRankSpec(KeyOf(1, 1)));
  rig.Clear();
  const Fence before = rig.state.fence;
  rig.fence.epoch = 2;
  disk.Receive(to_node::Stop{.key = KeyOf(1, 1)});
  ASSERT_EQ(rig.orders.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<order::SaveFence>(rig.orders[0]));
  EXPECT_TRUE(std::holds_alternative<order::CloseLink>(rig.orders[1]));
  EXPECT_EQ(rig.PhaseOf(KeyOf(1, 1)), Phase::kStarted);
  EXPECT_EQ(rig.state.fence, before);

  disk.full = false;
  disk.Act(told::LinkUp{++rig.stream});
  ++rig.session;
  rig.Clear();
  disk.Receive(to_node::Welcome{.cluster = "c"});
  ASSERT_FALSE(rig.orders.empty());
  EXPECT_TRUE(std::holds_alternative<order::SaveFence>(rig.orders[0]));
  EXPECT_TRUE(rig.state.link.welcomed);
}

TEST(AgentFence, APongAloneWritesNothing) {
  Rig rig = ConnectedRig();
  rig.fence.revision = 50;
  rig.Receive(to_node::Pong{1});
  EXPECT_TRUE(rig.Ordered<order::SaveFence>().empty());
}

TEST(AgentLink, KeepsTheNewestNoticesWhileCut) {
  Rig rig = ConnectedRig();
  rig.Cut();
  for (int i = 0; i < 100; ++i)
    rig.Tell(told::NodeNotice{{.kind = "gpu.xid", .text = std::to_string(i)}});
  rig.Connect();
  const auto notices = rig.Sent<from_node::Notice>();
  ASSERT_EQ(notices.size(), 64u);
  EXPECT_EQ(notices.back().text, "99");
}

TEST(AgentLink, WithoutLinkAndAllocationsThereIsNoDeadline) {
  Rig rig;
  EXPECT_EQ(NextDeadline(rig.state), std::nullopt);
}

}  // namespace
}  // namespace launch::agent
