// Leases count from what the controller answered, as of when it was sent; what is over stays over.
#include <gtest/gtest.h>

#include "tests/unit/agent/core/agent_rig.h"

namespace launch::agent {
namespace {

const Key kJob = KeyOf(1, 1);
constexpr Millis kLease{60'000};

AllocationSpec LeasedSpec() {
  AllocationSpec spec = TwoRankSpec(kJob);
  spec.lease = kLease;
  return spec;
}

// A beat that is answered after `round_trip`.
BootTime BeatAndPong(Rig& rig, Millis round_trip) {
  rig.Clear();
  rig.After(Millis{1000});
  const auto beats = rig.Sent<from_node::Beat>();
  EXPECT_EQ(beats.size(), 1u);
  const BootTime sent = rig.now;
  rig.now += round_trip;
  rig.Receive(to_node::Pong{beats.back().n});
  return sent;
}

TEST(Lease, BeginsAtTheStartAndCountsFromWhenTheAnsweredBeatWasSent) {
  Rig rig = ConnectedRig();
  const BootTime hello = rig.now;
  rig.Accept(LeasedSpec());
  rig.Go(kJob);
  ASSERT_EQ(rig.Ordered<order::Start>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::Start>()[0].lease_end, hello + kLease);
  rig.StartAll(kJob);
  const BootTime sent = BeatAndPong(rig, Millis{7'000});
  ASSERT_EQ(rig.Ordered<order::ExtendLease>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::ExtendLease>()[0].end, sent + kLease) << "not from the answer";
}

TEST(Lease, NoneWithoutRequeueAfter) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kJob));
  EXPECT_FALSE(rig.Ordered<order::Start>().at(0).lease_end);
  BeatAndPong(rig, Millis{10});
  EXPECT_TRUE(rig.Ordered<order::ExtendLease>().empty());
}

TEST(Lease, AnAnswerThatComesAfterTheRanksWereToldToEndRevivesNothing) {
  Rig rig = ConnectedRig();
  rig.Run(LeasedSpec());
  rig.Clear();
  rig.After(Millis{1000});
  const std::uint64_t beat = rig.Sent<from_node::Beat>().back().n;
  rig.now += kLease;  // beyond the end less the grace of five seconds
  rig.Receive(to_node::Pong{beat});
  EXPECT_TRUE(rig.Ordered<order::ExtendLease>().empty());
}

TEST(Lease, AReconnectExtendsItAsOfItsHello) {
  Rig rig = ConnectedRig();
  rig.Run(LeasedSpec());
  rig.Cut();
  rig.now += Millis{30'000};
  rig.Clear();
  const BootTime hello = rig.now;
  rig.Connect();
  ASSERT_EQ(rig.Ordered<order::ExtendLease>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::ExtendLease>()[0].end, hello + kLease);
}

TEST(Lease, AGoThatComesTooLateIsRefused) {
  Rig rig = ConnectedRig();
  rig.Accept(LeasedSpec());
  rig.Clear();
  rig.now += kLease;
  rig.Go(kJob);
  EXPECT_EQ(rig.RefusalCode(), "go lease_over");
  EXPECT_TRUE(rig.Ordered<order::Start>().empty());
}

FoundAllocation RunningLeased(std::optional<BootTime> end) {
  FoundAllocation found;
  found.status = {.key = kJob, .digest = "d1", .phase = AllocationPhase::kStarted};
  found.status.ranks = {{.rank = 0, .started = true, .pid = 7}, {.rank = 1, .started = true}};
  found.boot_id = TestIdentity().boot_id;
  found.alive = true;
  found.spec = LeasedSpec();
  found.lease_end = end;
  return found;
}

TEST(Lease, IsCarriedOnAfterARestartOfTheAgent) {
  RunnerState found;
  found.allocations = {RunningLeased(BootMs(1'030'000))};
  Rig rig(found);
  rig.GiveInventory();
  rig.Connect();
  ASSERT_EQ(rig.Ordered<order::ExtendLease>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::ExtendLease>()[0].end, rig.now + kLease);
}

TEST(Lease, RanksOfAStoppedShimAreEndedByTheAgentSoonAfterIt) {
  Rig rig = ConnectedRig();
  rig.Run(LeasedSpec());
  const BootTime end = *rig.state.allocations.at(kJob).lease_end;
  rig.Cut();
  rig.Clear();
  rig.now = end;  // the shims have this moment to themselves
  rig.After(Millis{0});
  EXPECT_TRUE(rig.Ordered<order::StopAllocation>().empty());
  ASSERT_TRUE(NextDeadline(rig.state));
  rig.now = *NextDeadline(rig.state);
  EXPECT_LE(rig.now, end + Millis{5'000}) << "well within the margin of the controller";
  rig.After(Millis{0});
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].cause, StopCause::kLease);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].grace, Millis{0});
  rig.Clear();
  rig.After(Millis{10'000});
  EXPECT_TRUE(rig.Ordered<order::StopAllocation>().empty()) << "once";
}

TEST(Lease, AStopWithALongGraceDoesNotOutliveTheLease) {
  Rig rig = ConnectedRig();
  rig.Run(LeasedSpec());
  const BootTime end = *rig.state.allocations.at(kJob).lease_end;
  rig.Receive(to_node::Stop{kJob, StopCause::kCancelled, Millis{600'000}});
  rig.Cut();
  rig.Clear();
  rig.now = end + Millis{5'000};
  rig.After(Millis{0});
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].cause, StopCause::kCancelled);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].grace, Millis{0});
}

TEST(Lease, ThatCannotBeReadEndsNoRankBeforeItsShimWould) {
  RunnerState found;
  found.allocations = {RunningLeased(std::nullopt)};
  Rig rig(found);
  rig.GiveInventory();
  rig.After(kLease);
  EXPECT_TRUE(rig.Ordered<order::StopAllocation>().empty());
  rig.After(Millis{5'000});
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
}

TEST(Lease, ThatCannotBeReadIsNeverExtended) {
  RunnerState found;
  found.allocations = {RunningLeased(std::nullopt)};
  Rig rig(found);
  rig.GiveInventory();
  rig.Connect();
  EXPECT_TRUE(rig.Ordered<order::ExtendLease>().empty());
}

}  // namespace
}  // namespace launch::agent
