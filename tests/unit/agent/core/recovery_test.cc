#include <gtest/gtest.h>

#include "agent_rig.h"

namespace launch::agent {
namespace {

const Key kKey = KeyOf(1, 1);

FoundAllocation Found(std::vector<RankStatus> ranks) {
  FoundAllocation found{.boot_id = "boot-a", .path = "/s/1.1", .spec = TwoRankSpec(kKey)};
  found.status = {.key = kKey, .digest = "d1", .ranks = std::move(ranks), .gpus = {kGpu0, kGpu1}};
  return found;
}

RankStatus Running(Rank rank) { return {.rank = rank, .started = true, .pid = 100 + rank}; }
RankStatus Ended(Rank rank, int code) {
  RankStatus status = Running(rank);
  status.exit = ExitReport{.key = kKey, .rank = rank, .cause = Exited{code}};
  return status;
}
RunnerState With(FoundAllocation found) {
  RunnerState state;
  state.allocations.push_back(std::move(found));
  return state;
}

TEST(AgentRecovery, AnAcceptedAllocationIsReportedAndCanStillGo) {
  Rig rig(With(Found({{.rank = 0}, {.rank = 1}})));
  EXPECT_TRUE(rig.orders.empty());
  EXPECT_EQ(rig.PhaseOf(kKey), Phase::kAccepted);
  rig.GiveInventory();
  rig.Connect();
  rig.Go(kKey);
  EXPECT_EQ(rig.Ordered<order::Start>().size(), 1u);
}

TEST(AgentRecovery, TheGroupsInWhichWasLookedAreTold) {
  RunnerState found;
  found.cgroups = "/sys/fs/cgroup/launch-a";
  Rig rig(found);
  rig.GiveInventory();
  rig.Connect();
  EXPECT_EQ(rig.Sent<from_node::Hello>().at(0).cgroups, found.cgroups);
}

TEST(AgentRecovery, AnAcceptedAllocationWithSecretsNeedsThemAgain) {
  FoundAllocation found = Found({{.rank = 0}, {.rank = 1}});
  found.spec->secret_names = {"TOKEN"};
  Rig rig = ConnectedRig(With(found));
  rig.Go(kKey);
  EXPECT_EQ(rig.RefusalCode(), "go secrets_missing");
  rig.Receive(to_node::Prepare{*found.spec, "d1", {{"TOKEN", "s"}}});
  rig.Go(kKey);
  EXPECT_EQ(rig.Ordered<order::Start>().size(), 1u);
}

TEST(AgentRecovery, AHalfSpawnedAllocationIsStoppedNeverCompleted) {
  FoundAllocation found = Found({Running(0), {.rank = 1}});
  found.alive = true;
  Rig rig(With(found));
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].cause, StopCause::kStartFailed);
  const auto& exit = rig.state.allocations.at(kKey).ranks.at(1).exit;
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(std::get<FailedToStart>(exit->cause).stage, "agent_restarted");
}

TEST(AgentRecovery, ALivingAllocationIsAdoptedUntouched) {
  FoundAllocation found = Found({Running(0), Running(1)});
  found.alive = true;
  Rig rig(With(found));
  EXPECT_TRUE(rig.orders.empty());
  rig.GiveInventory();
  rig.Connect();
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].allocations[0].phase, AllocationPhase::kStarted);
  rig.End(kKey, 0, 33);
  EXPECT_EQ(rig.Sent<from_node::RankExited>().size(), 1u);
}

TEST(AgentRecovery, RanksThatVanishedWithTheirSupervisorAreUnknown) {
  Rig rig(With(Found({Running(0), Ended(1, 0)})));
  const auto& exit = rig.state.allocations.at(kKey).ranks.at(0).exit;
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(std::get<UnknownEnd>(exit->cause).why, "supervisor and rank gone");
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u) << "the free proof";
}

TEST(AgentRecovery, AnExitWhileTheAgentWasAwayIsReportedAsItWas) {
  Rig rig(With(Found({Ended(0, 33), Ended(1, 0)})));
  rig.GiveInventory();
  rig.Connect();
  const auto exits = rig.Sent<from_node::RankExited>();
  ASSERT_EQ(exits.size(), 2u);
  EXPECT_EQ(exits[0].report.cause, ExitCause(Exited{33}));
}

TEST(AgentRecovery, AnAcknowledgedExitIsNotReplacedByAnUnknownOne) {
  FoundAllocation found = Found({Running(0), Ended(1, 0)});
  found.acked = {0};
  Rig rig(With(found));
  EXPECT_FALSE(rig.state.allocations.at(kKey).ranks.at(0).exit.has_value());
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
}

TEST(AgentRecovery, AfterARebootWhatRanIsUnknownAndWhatEndedIsReported) {
  FoundAllocation found = Found({Running(0), Ended(1, 33)});
  found.boot_id = "boot-before";
  Rig rig(With(found));
  const auto& ranks = rig.state.allocations.at(kKey).ranks;
  EXPECT_EQ(std::get<UnknownEnd>(ranks.at(0).exit->cause).why, "node rebooted");
  EXPECT_EQ(ranks.at(1).exit->cause, ExitCause(Exited{33}));
}

TEST(AgentRecovery, AfterARebootAnUnstartedAllocationIsDropped) {
  FoundAllocation found = Found({{.rank = 0}, {.rank = 1}});
  found.boot_id = "boot-before";
  Rig rig(With(found));
  EXPECT_EQ(rig.PhaseOf(kKey), Phase::kDropped);
  EXPECT_EQ(rig.Ordered<order::Drop>().size(), 1u);
}

TEST(AgentRecovery, AnInterruptedStopIsRepeated) {
  FoundAllocation found = Found({Running(0), Running(1)});
  found.alive = true;
  found.tombstone = true;
  Rig rig(With(found));
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].grace, Millis{5000});
}

TEST(AgentRecovery, AnInterruptedStopGoesOnForTheCauseThatItHad) {
  FoundAllocation found = Found({Running(0), Running(1)});
  found.alive = true;
  found.tombstone = true;
  found.stop = {StopCause::kTimeLimit, Millis{7000}};
  Rig rig(With(found));
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].cause, StopCause::kTimeLimit);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].grace, Millis{7000});
}

TEST(AgentRecovery, AnInterruptedStopOfWhatIsHalfStartedHasThatCause) {
  FoundAllocation found = Found({Running(0), {.rank = 1}});
  found.alive = true;
  found.tombstone = true;
  Rig rig(With(found));
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].cause, StopCause::kStartFailed);
}

TEST(AgentRecovery, ATombstoneRefusesItsAttemptAndAnswersStopAgain) {
  FoundAllocation found{.tombstone = true};
  found.status = {.key = KeyOf(4, 2), .phase = AllocationPhase::kReleased};
  Rig rig = ConnectedRig(With(found));
  rig.Prepare(TwoRankSpec(KeyOf(4, 2)));
  EXPECT_EQ(rig.RefusalCode(), "accept again stale_attempt");
  rig.Receive(to_node::Stop{.key = KeyOf(4, 2)});
  EXPECT_EQ(rig.Sent<from_node::Released>().size(), 1u);
}

TEST(AgentRecovery, WhatWasReleasedBeforeIsToldWithItsLogEnds) {
  FoundAllocation found = Found({Running(0), Running(1)});
  found.tombstone = true;
  found.acked = {0, 1};
  found.status.phase = AllocationPhase::kReleased;
  Rig rig = ConnectedRig(With(found));
  rig.StopDone(kKey);
  ASSERT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Released>()[0].log_ends.size(), 2u);
}

TEST(AgentRecovery, AStopWhoseProofWasInterruptedIsProvedAgain) {
  FoundAllocation found = Found({Ended(0, 1), Ended(1, 1)});
  found.tombstone = true;
  Rig rig(With(found));
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.PhaseOf(kKey), Phase::kStopping);
}

TEST(AgentRecovery, AnUnreadableAttemptHoldsItsGpusAndNamesTheFile) {
  FoundAllocation found{.unreadable = true, .path = "/s/1.1/accept", .why = "bad checksum"};
  found.status = {.key = kKey, .gpus = {kGpu1}};
  Rig rig(With(found));
  rig.GiveInventory();
  rig.Connect();
  EXPECT_TRUE(rig.Ordered<order::StopAllocation>().empty());
  ASSERT_EQ(rig.Sent<from_node::Hello>()[0].held.size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].held[0].second, "/s/1.1/accept: bad checksum");
  EXPECT_EQ(rig.Sent<from_node::Notice>().size(), 1u);
  rig.Prepare(TwoRankSpec(KeyOf(2, 1)));
  EXPECT_EQ(rig.RefusalCode(), "accept gpu_busy");
  rig.Receive(to_node::Stop{.key = kKey});
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u) << "on the controller's word only";
}

// Its processes ran and are gone: nothing is held any more, and how they ended nobody can say.
TEST(AgentRecovery, WhatHadNoRecordIsGivenBackWhenItIsGone) {
  FoundAllocation found{.alive = true, .unreadable = true, .path = "/s/1.1", .why = "no record"};
  found.status.key = kKey;
  Rig rig = ConnectedRig(With(std::move(found)));
  EXPECT_EQ(rig.PhaseOf(kKey), Phase::kUnreadable);
  rig.Tell(told::StopDone{kKey, {}, {}});
  ASSERT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  EXPECT_TRUE(rig.Sent<from_node::RankExited>().empty());
  EXPECT_EQ(rig.PhaseOf(kKey), Phase::kReleased);
  rig.Receive(to_node::Forget{kKey});
  EXPECT_TRUE(rig.state.allocations.empty());
}

TEST(AgentRecovery, TheEndsOfAnUnreadableAttemptAreTold) {
  FoundAllocation found{.alive = true, .unreadable = true, .path = "/s/1.1", .why = "bad checksum"};
  found.status.key = kKey;
  found.status.ranks = {Ended(0, 3), {.rank = 1, .started = true, .pid = 101}};
  Rig rig(With(std::move(found)));
  rig.GiveInventory();
  rig.Connect();
  ASSERT_EQ(rig.Sent<from_node::Hello>().size(), 1u);
  const auto said = rig.Sent<from_node::Hello>()[0].allocations;
  ASSERT_EQ(said.size(), 1u);
  ASSERT_EQ(said[0].ranks.size(), 2u);
  EXPECT_TRUE(said[0].ranks[0].exit);
  rig.End(kKey, 1, 4);
  EXPECT_EQ(rig.Sent<from_node::RankExited>().back().report.rank, 1);
  EXPECT_EQ(rig.PhaseOf(kKey), Phase::kUnreadable) << "ended by the controller's word only";
  EXPECT_TRUE(rig.Ordered<order::StopAllocation>().empty());
}

TEST(AgentRecovery, AnUnreadableListHoldsAllGpusOfTheNode) {
  FoundAllocation found{.unreadable = true, .path = "/s/1.1/accept", .why = "bad checksum"};
  found.status.key = kKey;
  Rig rig(With(found));
  rig.GiveInventory();
  rig.Connect();
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].held.size(), 2u);
}

TEST(AgentRecovery, FloorsAreSaidInHello) {
  RunnerState found;
  found.floors = {KeyOf(7, 3)};
  Rig rig(found);
  rig.GiveInventory();
  rig.Connect();
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].floors, std::vector<Key>{KeyOf(7, 3)});
}

}  // namespace
}  // namespace launch::agent
