#include <gtest/gtest.h>

#include "agent_rig.h"

namespace launch::agent {
namespace {

TEST(Prepare, OfASpecThatCannotBeReadIsAnswered) {
  Rig rig = ConnectedRig();
  to_node::Prepare prepare{.spec = {.key = KeyOf(1, 1)}, .digest = "d1"};
  prepare.refused = "spec.ranks[0].argv[2]: is longer than 131072 bytes";
  rig.Receive(prepare);
  EXPECT_EQ(rig.RefusalCode(), "accept bad_spec");
  EXPECT_EQ(rig.Sent<from_node::Refused>()[0].why, prepare.refused);
  EXPECT_TRUE(rig.state.allocations.empty());
  EXPECT_TRUE(rig.Ordered<order::CloseLink>().empty());
}

const Key kKey = KeyOf(1, 1);

// ---- Prepare ----

TEST(AgentPrepare, AcceptsAndAnswersOnceTheRunnerDid) {
  Rig rig = ConnectedRig();
  rig.Prepare(TwoRankSpec(kKey));
  ASSERT_EQ(rig.Ordered<order::Accept>().size(), 1u);
  EXPECT_TRUE(rig.Sent<from_node::Accepted>().empty());
  rig.Tell(told::AcceptDone{kKey, std::optional<PortBlock>(PortBlock{20000, 4})});
  ASSERT_EQ(rig.Sent<from_node::Accepted>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Accepted>()[0].ports, (PortBlock{20000, 4}));
}

TEST(AgentPrepare, SaysWhetherItTookALease) {
  Rig rig = ConnectedRig();
  AllocationSpec spec = TwoRankSpec(kKey);
  spec.lease = Millis{600'000};
  rig.Prepare(spec);
  rig.Tell(told::AcceptDone{kKey, std::nullopt});
  ASSERT_EQ(rig.Sent<from_node::Accepted>().size(), 1u);
  EXPECT_TRUE(rig.Sent<from_node::Accepted>()[0].leased);
}

TEST(AgentPrepare, RefusesAJobOfAnotherAccountThanItsOwn) {
  Rig rig = ConnectedRig();
  AllocationSpec spec = TwoRankSpec(kKey);
  for (const char* other : {"eve", "", "ana "}) {
    spec.user = other;
    rig.Prepare(spec);
    EXPECT_EQ(rig.RefusalCode(), "accept wrong_account") << other;
  }
  EXPECT_TRUE(rig.Ordered<order::Accept>().empty());
  rig.state.identity.account.reset();  // multi_user: each job as its owner
  rig.Prepare(spec);
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 1u);
}

TEST(AgentPrepare, ARepetitionIsAnsweredWithoutASecondAccept) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.Sent<from_node::Accepted>().size(), 2u);
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 1u);
}

TEST(AgentPrepare, ARepetitionWhileAcceptingWaits) {
  Rig rig = ConnectedRig();
  rig.Prepare(TwoRankSpec(kKey));
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 1u);
  EXPECT_TRUE(rig.Sent<from_node::Refused>().empty());
}

TEST(AgentPrepare, RefusesTheSameAttemptWithAnotherDigest) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Prepare(TwoRankSpec(kKey), "d2");
  EXPECT_EQ(rig.RefusalCode(), "accept again digest");
}

TEST(AgentPrepare, RefusesALowerAttemptAndNamesTheFloor) {
  RunnerState found;
  found.floors = {KeyOf(1, 3)};
  Rig rig = ConnectedRig(found);
  rig.Prepare(TwoRankSpec(KeyOf(1, 2)));
  ASSERT_EQ(rig.RefusalCode(), "accept stale_attempt");
  EXPECT_EQ(rig.Sent<from_node::Refused>()[0].floor, Attempt{3});
  rig.Prepare(TwoRankSpec(KeyOf(1, 3)));
  EXPECT_EQ(rig.Sent<from_node::Refused>().size(), 2u) << "equal, and its content is not known";
  rig.Prepare(TwoRankSpec(KeyOf(1, 4)));
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 1u);
}

TEST(AgentPrepare, RefusesWhatIsForAnotherNode) {
  Rig rig = ConnectedRig();
  AllocationSpec spec = TwoRankSpec(kKey);
  spec.node = NodeId{"n2"};
  rig.Prepare(spec);
  EXPECT_EQ(rig.RefusalCode(), "accept wrong_node");
}

TEST(AgentPrepare, RefusesAGpuThatIsNotThere) {
  Rig rig = ConnectedRig();
  AllocationSpec spec = TwoRankSpec(kKey);
  spec.gpus[1] = GpuUuid{"GPU-9"};
  rig.Prepare(spec);
  EXPECT_EQ(rig.RefusalCode(), "accept inventory_changed");
}

TEST(AgentPrepare, RefusesAGpuWhoseIndexMoved) {
  Rig rig = ConnectedRig();
  AllocationSpec spec = TwoRankSpec(kKey);
  spec.gpu_indices = {1, 0};
  rig.Prepare(spec);
  EXPECT_EQ(rig.RefusalCode(), "accept inventory_changed");
}

TEST(AgentPrepare, RefusesABadGpu) {
  Rig rig = ConnectedRig();
  NodeInventory inventory = TwoGpuInventory();
  inventory.gpus[1].health = Health::kBad;
  inventory.gpus[1].why = "Xid 79";
  rig.GiveInventory(inventory);
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.RefusalCode(), "accept gpu_unhealthy");
}

TEST(AgentPrepare, RefusesAGpuOfAnotherAllocation) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.Prepare(TwoRankSpec(KeyOf(2, 1)));
  EXPECT_EQ(rig.RefusalCode(), "accept gpu_busy");
}

TEST(AgentPrepare, AcceptsAMigSliceByItsUuid) {
  Rig rig = ConnectedRig();
  NodeInventory inventory = TwoGpuInventory();
  inventory.gpus[1].mig = {MigSlice{.uuid = GpuUuid{"MIG-1"}}};
  rig.GiveInventory(inventory);
  AllocationSpec spec = TwoRankSpec(kKey);
  spec.gpus = {GpuUuid{"MIG-1"}};
  spec.gpu_indices = {1};
  rig.Prepare(spec);
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 1u);
}

TEST(AgentPrepare, NamesTheForeignProcessOfABusyGpu) {
  Rig rig = ConnectedRig();
  rig.Tell(told::Inventory{TwoGpuInventory(),
                           {{kGpu1, {GpuProcess{.pid = 4711, .user = "bob", .name = "python"}}}}});
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.RefusalCode(), "accept gpu_busy");
  EXPECT_NE(rig.Sent<from_node::Refused>()[0].why.find("4711 (python of bob)"), std::string::npos);
}

TEST(AgentPrepare, NamesAllBusyGpusAndNoOther) {
  Rig rig = ConnectedRig();
  rig.Tell(told::Inventory{TwoGpuInventory(), {{kGpu1, {GpuProcess{.pid = 4711}}}}});
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.Sent<from_node::Refused>()[0].gpus, std::vector<GpuUuid>{kGpu1});
  rig.Tell(told::Inventory{TwoGpuInventory(),
                           {{kGpu0, {GpuProcess{.pid = 7}}}, {kGpu1, {GpuProcess{.pid = 4711}}}}});
  rig.Prepare(TwoRankSpec(kKey));
  const from_node::Refused both = rig.Sent<from_node::Refused>().back();
  EXPECT_EQ(both.gpus, (std::vector<GpuUuid>{kGpu0, kGpu1}));
  EXPECT_NE(both.why.find("process 7; GPU 1"), std::string::npos) << both.why;
}

TEST(AgentPrepare, ASystemProcessIsNoClaimToAGpu) {
  Rig rig = ConnectedRig();
  rig.state.identity.system_processes = {"Xorg"};
  rig.Tell(told::Inventory{TwoGpuInventory(), {{kGpu1, {GpuProcess{.pid = 9, .name = "Xorg"}}}}});
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 1u);
}

TEST(AgentPrepare, AListTakenBeforeTheReleaseOfAGpuIsNoEvidence) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  const told::Inventory with_rank{TwoGpuInventory(), {{kGpu0, {GpuProcess{.pid = 100}}}}};
  rig.Tell(with_rank);
  rig.Receive(to_node::Stop{.key = kKey});
  rig.StopDone(kKey);
  rig.Prepare(TwoRankSpec(KeyOf(2, 1)));
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 2u);
  rig.Tell(told::AcceptDone{KeyOf(2, 1), Fail(ErrorCode::kConflict, "lock of GPU-0 is held")});
  rig.now += Millis{10'000};
  rig.Tell(with_rank);
  rig.Prepare(TwoRankSpec(KeyOf(3, 1)));
  EXPECT_EQ(rig.RefusalCode(), "accept gpu_busy") << "a newer list counts";
}

TEST(AgentPrepare, ARefusalOfTheRunnerLeavesNoFloor) {
  Rig rig = ConnectedRig();
  rig.Prepare(TwoRankSpec(kKey));
  rig.Tell(told::AcceptDone{kKey, Fail(ErrorCode::kConflict, "lock of GPU-0 is held")});
  EXPECT_EQ(rig.RefusalCode(), "accept gpu_busy");
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 2u);
}

TEST(AgentPrepare, PortsThatOthersHoldAreNamed) {
  Rig rig = ConnectedRig();
  rig.Prepare(TwoRankSpec(kKey));
  rig.Tell(told::AcceptDone{kKey, Fail(ErrorCode::kUnavailable, "no free block of 4 ports")});
  EXPECT_EQ(rig.RefusalCode(), "accept port_busy");
}

TEST(AgentPrepare, AFullDiskIsNamed) {
  Rig rig = ConnectedRig();
  rig.Prepare(TwoRankSpec(kKey));
  rig.Tell(told::AcceptDone{kKey, Fail(ErrorCode::kResourceExhausted, "no space")});
  EXPECT_EQ(rig.RefusalCode(), "accept disk_full");
}

TEST(AgentPrepare, RefusesAnAttemptThatWasStopped) {
  Rig rig = ConnectedRig();
  rig.Receive(to_node::Stop{.key = kKey});
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.RefusalCode(), "accept again stale_attempt") << "something may be here";
  rig.StopDone(kKey);
  rig.Clear();
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.RefusalCode(), "accept again stale_attempt");
}

// ---- Stage ----

TEST(AgentStage, StagesAndAnswersWithTheFacts) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Receive(to_node::Stage{.key = kKey, .digest = "d1"});
  ASSERT_EQ(rig.Ordered<order::StageAllocation>().size(), 1u);
  rig.Tell(told::StageDone{kKey, StagingFacts{.setup_exit = 0}});
  ASSERT_EQ(rig.Sent<from_node::Ready>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Ready>()[0].facts.setup_exit, 0);
}

TEST(AgentStage, ARepetitionIsAnsweredFromTheFacts) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  const to_node::Stage stage{.key = kKey, .digest = "d1"};
  rig.Receive(stage);
  rig.Receive(stage);
  rig.Tell(told::StageDone{kKey, {}});
  rig.Receive(stage);
  EXPECT_EQ(rig.Ordered<order::StageAllocation>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Ready>().size(), 2u);
}

TEST(AgentStage, OtherQuestionsAreStagedAnew) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Receive(to_node::Stage{.key = kKey, .digest = "d1"});
  rig.Tell(told::StageDone{kKey, {}});
  rig.Receive(to_node::Stage{.key = kKey, .digest = "d1", .masters = {"10.0.0.1"}});
  EXPECT_EQ(rig.Ordered<order::StageAllocation>().size(), 2u);
  EXPECT_EQ(rig.PhaseOf(kKey), Phase::kStaging);
}

TEST(AgentStage, ProgressIsPassedOn) {
  Rig rig = ConnectedRig();
  rig.Tell(told::StageProgress{kKey, "setup", "pip install"});
  EXPECT_EQ(rig.Sent<from_node::Staging>().size(), 1u);
}

TEST(AgentStage, IsRefusedForADroppedAllocation) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.After(kUnstartedSilence);
  rig.Receive(to_node::Stage{.key = kKey, .digest = "d1"});
  EXPECT_EQ(rig.RefusalCode(), "stage dropped");
}

TEST(AgentStage, IsIgnoredForAnUnknownKey) {
  Rig rig = ConnectedRig();
  rig.Receive(to_node::Stage{.key = kKey, .digest = "d1"});
  EXPECT_TRUE(rig.Ordered<order::StageAllocation>().empty());
}

// ---- Go ----

TEST(AgentGo, StartsOnceAndReportsTheProcesses) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Go(kKey);
  rig.Go(kKey);
  EXPECT_EQ(rig.Ordered<order::Start>().size(), 1u);
  rig.StartAll(kKey);
  ASSERT_EQ(rig.Sent<from_node::Started>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Started>()[0].pids,
            (std::vector<std::pair<Rank, std::int64_t>>{{0, 100}, {1, 101}}));
  rig.Go(kKey);
  EXPECT_EQ(rig.Sent<from_node::Started>().size(), 2u);
  EXPECT_EQ(rig.Ordered<order::Start>().size(), 1u);
}

TEST(AgentGo, IsRefusedForAnUnknownOrOtherContent) {
  Rig rig = ConnectedRig();
  rig.Go(kKey);
  EXPECT_EQ(rig.RefusalCode(), "go dropped");
  rig.Accept(TwoRankSpec(kKey));
  rig.Go(kKey, "d2");
  EXPECT_EQ(rig.RefusalCode(), "go digest");
}

TEST(AgentGo, IsRefusedWhileStagingAndAfterADropAndAfterAStop) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Receive(to_node::Stage{.key = kKey, .digest = "d1"});
  rig.Go(kKey);
  EXPECT_EQ(rig.RefusalCode(), "go not_ready");
  rig.After(kUnstartedSilence);
  EXPECT_EQ(rig.Ordered<order::Drop>().size(), 1u);
  rig.Go(kKey);
  EXPECT_EQ(rig.RefusalCode(), "go dropped");
  rig.Receive(to_node::Stop{.key = kKey});
  rig.Go(kKey);
  EXPECT_EQ(rig.RefusalCode(), "go stopped");
  EXPECT_TRUE(rig.Ordered<order::Start>().empty());
}

TEST(AgentGo, HandsOverTheSecretsAndForgetsThem) {
  Rig rig = ConnectedRig();
  AllocationSpec spec = TwoRankSpec(kKey);
  spec.secret_names = {"TOKEN"};
  rig.Receive(to_node::Prepare{spec, "d1", {{"TOKEN", "s"}}});
  rig.Tell(told::AcceptDone{kKey, std::optional<PortBlock>()});
  rig.Go(kKey);
  ASSERT_EQ(rig.Ordered<order::Start>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::Start>()[0].secrets.size(), 1u);
  EXPECT_FALSE(rig.state.allocations.at(kKey).secrets.has_value());
}

TEST(AgentGo, AFailedStartStopsTheOthersAndKeepsEachRanksOwnEnd) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Go(kKey);
  rig.Tell(told::StartDone{kKey, {{0, 100}}, FailedToStart{"exec", 2, "no such file"}});
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].cause, StopCause::kStartFailed);
  rig.Tell(told::RankEnded{
      ExitReport{.key = kKey, .rank = 1, .cause = FailedToStart{"exec", 2, "no such file"}}});
  rig.End(kKey, 0, 143);
  rig.StopDone(kKey);
  EXPECT_EQ(rig.Sent<from_node::RankExited>().size(), 2u);
  EXPECT_EQ(rig.Sent<from_node::Released>().size(), 1u);
}

TEST(AgentGo, RanksThatWereNeverSpawnedEndWithTheFailureOfTheStart) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Go(kKey);
  rig.Tell(told::StartDone{kKey, {}, FailedToStart{"files", 0, "no space"}});
  EXPECT_TRUE(rig.Sent<from_node::RankExited>().empty());
  rig.StopDone(kKey);
  const auto exits = rig.Sent<from_node::RankExited>();
  ASSERT_EQ(exits.size(), 2u);
  EXPECT_EQ(std::get<FailedToStart>(exits[1].report.cause).stage, "files");
}

// ---- exits ----

TEST(AgentExit, IsSentAtOnceAndAgainUntilItIsAcknowledged) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.End(kKey, 1, 33);
  EXPECT_EQ(rig.Sent<from_node::RankExited>().size(), 1u);
  rig.Clear();
  rig.After(kResend);
  EXPECT_EQ(rig.Sent<from_node::RankExited>().size(), 1u);
  rig.Receive(to_node::ExitAck{kKey, 1});
  EXPECT_EQ(rig.Ordered<order::NoteAcked>().size(), 1u);
  rig.Receive(to_node::ExitAck{kKey, 1});
  EXPECT_EQ(rig.Ordered<order::NoteAcked>().size(), 1u);
  rig.Clear();
  rig.After(kResend);
  EXPECT_TRUE(rig.Sent<from_node::RankExited>().empty());
}

TEST(AgentExit, WhileCutIsToldInHelloAndAgainAfterWelcome) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.Cut();
  rig.Clear();
  rig.End(kKey, 0, 33);
  EXPECT_TRUE(rig.orders.empty());
  rig.Connect();
  const auto hello = rig.Sent<from_node::Hello>();
  ASSERT_EQ(hello.size(), 1u);
  ASSERT_EQ(hello[0].allocations.size(), 1u);
  ASSERT_EQ(hello[0].allocations[0].ranks.size(), 2u);
  ASSERT_TRUE(hello[0].allocations[0].ranks[0].exit.has_value());
  EXPECT_EQ(hello[0].allocations[0].ranks[0].exit->cause, ExitCause(Exited{33}));
  EXPECT_EQ(rig.Sent<from_node::RankExited>().size(), 1u);
}

TEST(AgentExit, TheLastOneRunsTheFreeProofAndThenReleases) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.End(kKey, 0);
  EXPECT_TRUE(rig.Ordered<order::StopAllocation>().empty());
  rig.End(kKey, 1);
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].cause, StopCause::kNone);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[0].grace, Millis{0});
  EXPECT_TRUE(rig.Sent<from_node::Released>().empty());
  rig.StopDone(kKey);
  ASSERT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Released>()[0].log_ends.size(), 2u);
}

TEST(AgentExit, OfARankThatWasFasterThanTheStartOfItsPeersIsKept) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Go(kKey);
  rig.End(kKey, 0, 1);
  rig.StartAll(kKey);
  EXPECT_EQ(rig.Sent<from_node::RankExited>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Started>().size(), 1u);
  EXPECT_EQ(rig.PhaseOf(kKey), Phase::kStarted);
}

TEST(AgentExit, ADuplicateChangesNothing) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.End(kKey, 0, 33);
  rig.End(kKey, 0, 1);
  EXPECT_EQ(rig.Sent<from_node::RankExited>().size(), 1u);
  EXPECT_EQ(rig.state.allocations.at(kKey).ranks.at(0).exit->cause, ExitCause(Exited{33}));
}

TEST(AgentExit, ALostRecordIsUnknownOnceNothingIsLeft) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.End(kKey, 0, 1);
  rig.Receive(to_node::Stop{.key = kKey, .cause = StopCause::kRankFailed});
  rig.StopDone(kKey);
  const auto exits = rig.Sent<from_node::RankExited>();
  ASSERT_EQ(exits.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<UnknownEnd>(exits[1].report.cause));
}

// ---- Stop ----

TEST(AgentStop, OfAnUnknownKeyLeavesATombstoneAndAFloor) {
  Rig rig = ConnectedRig();
  rig.Receive(to_node::Stop{.key = KeyOf(5, 2)});
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  rig.StopDone(KeyOf(5, 2));
  EXPECT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  rig.Prepare(TwoRankSpec(KeyOf(5, 1)));
  EXPECT_EQ(rig.RefusalCode(), "accept stale_attempt");
}

TEST(AgentStop, IsRepeatedToTheRunnerOnlyWhenItBecomesMoreUrgent) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.Receive(to_node::Stop{kKey, StopCause::kCancelled, Millis{5000}});
  rig.Receive(to_node::Stop{kKey, StopCause::kCancelled, Millis{5000}});
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  rig.Receive(to_node::Stop{kKey, StopCause::kTimeLimit, Millis{0}});
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 2u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[1].cause, StopCause::kCancelled);
}

TEST(AgentStop, ACancelDoesNotWaitForTheTimeThatALimitLeavesToASignal) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.Receive(to_node::Stop{kKey, StopCause::kTimeLimit, Millis{5000}});
  rig.Receive(to_node::Stop{kKey, StopCause::kRankFailed, Millis{5000}});
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_FALSE(rig.Ordered<order::StopAllocation>()[0].at_once);
  rig.Receive(to_node::Stop{kKey, StopCause::kCancelled, Millis{5000}});
  rig.Receive(to_node::Stop{kKey, StopCause::kCancelled, Millis{5000}});
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 2u);
  EXPECT_TRUE(rig.Ordered<order::StopAllocation>()[1].at_once);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>()[1].cause, StopCause::kTimeLimit);
}

TEST(AgentStop, ARepetitionAfterTheEndIsAnsweredAgain) {
  Rig rig = ConnectedRig();
  rig.Receive(to_node::Stop{.key = kKey});
  rig.StopDone(kKey);
  rig.Receive(to_node::Stop{.key = kKey});
  EXPECT_EQ(rig.Sent<from_node::Released>().size(), 2u);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
}

TEST(AgentStop, DuringAcceptOrStartWins) {
  for (const bool started : {false, true}) {
    Rig rig = ConnectedRig();
    rig.Prepare(TwoRankSpec(kKey));
    if (started) {
      rig.Tell(told::AcceptDone{kKey, std::optional<PortBlock>()});
      rig.Go(kKey);
    }
    rig.Receive(to_node::Stop{.key = kKey});
    rig.Clear();
    if (started)
      rig.StartAll(kKey);
    else
      rig.Tell(told::AcceptDone{kKey, std::optional<PortBlock>()});
    EXPECT_TRUE(rig.orders.empty());
    EXPECT_EQ(rig.PhaseOf(kKey), Phase::kStopping);
  }
}

TEST(AgentStop, WhatIsNotFreeIsHeldAndProvedAgainEachMinute) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.Receive(to_node::Stop{.key = kKey});
  rig.StopDone(kKey, {{kGpu0, "process in D state"}});
  EXPECT_EQ(rig.Sent<from_node::Released>()[0].held.size(), 1u);
  rig.Prepare(TwoRankSpec(KeyOf(2, 1)));
  EXPECT_EQ(rig.RefusalCode(), "accept gpu_busy");
  rig.Clear();
  rig.After(kProofRetry);
  EXPECT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  rig.StopDone(kKey, {{kGpu0, "process in D state"}});
  EXPECT_TRUE(rig.Sent<from_node::Released>().empty()) << "nothing new to say";
  rig.After(kProofRetry);
  rig.StopDone(kKey);
  ASSERT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  EXPECT_TRUE(rig.Sent<from_node::Released>()[0].held.empty());
  rig.Prepare(TwoRankSpec(KeyOf(2, 2)));
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 1u);
}

TEST(AgentStop, AReleaseWhileCutIsToldAfterWelcome) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.Receive(to_node::Stop{.key = kKey});
  rig.Cut();
  rig.StopDone(kKey);
  rig.Clear();
  rig.Connect();
  EXPECT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].allocations[0].phase, AllocationPhase::kReleased);
}

// ---- silence ----

TEST(AgentSilence, DropsWhatWasNotStarted) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.Cut();
  rig.Clear();
  EXPECT_EQ(NextDeadline(rig.state), rig.now + kUnstartedSilence);
  rig.After(kUnstartedSilence - Millis{1});
  EXPECT_TRUE(rig.orders.empty());
  rig.After(Millis{1});
  EXPECT_EQ(rig.Ordered<order::Drop>().size(), 1u);
  rig.Connect();
  EXPECT_EQ(rig.Sent<from_node::Hello>()[0].allocations[0].phase, AllocationPhase::kDropped);
}

TEST(AgentSilence, NeverTouchesWhatRuns) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.Cut();
  rig.Clear();
  rig.After(Millis{24 * 3'600'000});
  EXPECT_TRUE(rig.orders.empty());
}

TEST(AgentSilence, APongKeepsAnUnstartedAllocation) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.now += Millis{50'000};
  rig.Receive(to_node::Pong{1});
  rig.After(Millis{50'000});
  EXPECT_TRUE(rig.Ordered<order::Drop>().empty());
}

TEST(AgentSilence, APrepareAfterADropIsAcceptedAnew) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.After(kUnstartedSilence);
  rig.Prepare(TwoRankSpec(kKey));
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 2u);
}

TEST(AgentSilence, WhatCannotBeAcceptedAnewIsStillDroppedAndIsForgotten) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kKey));
  rig.After(kUnstartedSilence);
  rig.Prepare(TwoRankSpec(kKey));
  rig.Tell(told::AcceptDone{kKey, Fail(ErrorCode::kResourceExhausted, "the disk is full")});
  EXPECT_EQ(rig.Sent<from_node::Refused>().size(), 1u);
  ASSERT_TRUE(rig.state.allocations.contains(kKey)) << "its directory is there";
  rig.Receive(to_node::Forget{kKey});
  EXPECT_EQ(rig.Ordered<order::Forget>().size(), 1u);
}

// ---- Forget ----

TEST(AgentForget, DropsTheFloorAndTheDirectory) {
  Rig rig = ConnectedRig();
  rig.Receive(to_node::Stop{.key = kKey});
  rig.StopDone(kKey);
  rig.Receive(to_node::Forget{kKey});
  EXPECT_EQ(rig.Ordered<order::Forget>().size(), 1u);
  EXPECT_TRUE(rig.state.floors.empty());
  EXPECT_TRUE(rig.state.allocations.empty());
}

TEST(AgentForget, OfAnOlderAttemptKeepsTheFloor) {
  Rig rig = ConnectedRig();
  rig.Receive(to_node::Stop{.key = KeyOf(1, 2)});
  rig.Receive(to_node::Forget{KeyOf(1, 1)});
  EXPECT_EQ(rig.state.floors.at(JobId{1}), Attempt{2});
}

TEST(AgentForget, IsNotObeyedForWhatStillRuns) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.Receive(to_node::Forget{kKey});
  EXPECT_TRUE(rig.Ordered<order::Forget>().empty());
}

TEST(AgentForget, WaitsUntilNothingIsHeldAndEveryEndIsAcknowledged) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.End(kKey, 0);
  rig.Receive(to_node::ExitAck{kKey, 0});
  rig.Receive(to_node::Stop{.key = kKey});
  rig.StopDone(kKey, {{kGpu0, "busy"}});
  rig.Receive(to_node::Forget{kKey});
  EXPECT_TRUE(rig.Ordered<order::Forget>().empty()) << "a GPU is held";
  rig.Cut();
  rig.End(kKey, 1);
  rig.StopDone(kKey);
  EXPECT_TRUE(rig.Ordered<order::Forget>().empty()) << "nobody has heard of the end of rank 1";
  rig.Connect();
  rig.Receive(to_node::ExitAck{kKey, 1});
  EXPECT_EQ(rig.Ordered<order::Forget>().size(), 1u);
}

TEST(AgentForget, WaitsForWelcomeSoThatTheEndOfAHoldIsSaid) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kKey));
  rig.End(kKey, 0);
  rig.End(kKey, 1);
  rig.Receive(to_node::ExitAck{kKey, 0});
  rig.Receive(to_node::ExitAck{kKey, 1});
  rig.Receive(to_node::Stop{.key = kKey});
  rig.StopDone(kKey, {{kGpu0, "busy"}});
  rig.Receive(to_node::Forget{kKey});
  rig.Cut();
  rig.Clear();
  rig.Tell(told::LinkUp{++rig.stream});
  ASSERT_EQ(rig.Sent<from_node::Hello>().at(0).held.size(), 1u);
  rig.StopDone(kKey);
  EXPECT_TRUE(rig.Ordered<order::Forget>().empty()) << "Hello said that a GPU is held";
  ++rig.session;
  rig.Receive(to_node::Welcome{.cluster = "c"});
  ASSERT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  EXPECT_TRUE(rig.Sent<from_node::Released>()[0].held.empty());
  EXPECT_EQ(rig.Ordered<order::Forget>().size(), 1u);
}

TEST(AgentAnswers, OfAForgottenAllocationAreIgnored) {
  Rig rig = ConnectedRig();
  rig.StartAll(kKey);
  rig.End(kKey, 0);
  rig.StopDone(kKey);
  rig.Tell(told::StageDone{kKey, {}});
  rig.Tell(told::AcceptDone{kKey, std::optional<PortBlock>()});
  EXPECT_TRUE(rig.orders.empty());
  EXPECT_TRUE(rig.state.allocations.empty());
}

TEST(AgentExec, IsDialledAlwaysAndToldWhyNotUnlessTheRankRuns) {
  Rig rig = ConnectedRig();
  const auto ask = [&rig](Rank rank) {
    rig.Clear();
    rig.Receive(to_node::OpenExec{kKey, rank, "0123"});
    const auto orders = rig.Ordered<order::OpenExec>();
    EXPECT_EQ(orders.size(), 1u);
    EXPECT_EQ(orders.at(0).exec, "0123");
    return orders.at(0).refused;
  };
  EXPECT_EQ(ask(0), "attempt " + ToString(kKey) + " does not run here");
  rig.Accept(TwoRankSpec(kKey));
  EXPECT_NE(ask(0), "") << "accepted, not started";
  rig.Go(kKey);
  rig.StartAll(kKey);
  EXPECT_EQ(ask(0), "");
  EXPECT_EQ(ask(1), "");
  EXPECT_NE(ask(2), "");
  rig.End(kKey, 0);
  EXPECT_EQ(ask(0), "rank 0 does not run any more");
  EXPECT_EQ(ask(1), "");
  rig.Receive(to_node::Stop{.key = kKey});
  EXPECT_NE(ask(1), "") << "its end has begun";
}

TEST(AgentExec, OfACopyIsDialledWhateverRunsHere) {
  Rig rig = ConnectedRig();
  const JobCopy copy{.user = "ana", .root = std::string(64, 'b'), .workdir = "/proj"};
  rig.Receive(to_node::OpenExec{kKey, 0, "0123", copy});
  const auto orders = rig.Ordered<order::OpenExec>();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].refused, "");
  EXPECT_EQ(orders[0].copy, copy);
}

}  // namespace
}  // namespace launch::agent
