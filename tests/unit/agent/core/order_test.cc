// Orders of the controller that are about a held GPU, or that could not be read.
#include <gtest/gtest.h>

#include "tests/unit/agent/core/agent_rig.h"

namespace launch::agent {
namespace {

const Key kJob = KeyOf(1, 1);

Rig WithHeldGpus() {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kJob));
  rig.Receive(to_node::Stop{.key = kJob});
  rig.StopDone(kJob, {{kGpu0, "process in D state"}, {kGpu1, "process in D state"}});
  rig.Clear();
  return rig;
}

// Until the proof has failed once more nothing is held here, but the controller lists the GPU.
TEST(AgentQuarantine, AReleaseDuringTheProofAfterARestartHolds) {
  const Key old = KeyOf(1, 1);
  FoundAllocation found{
      .boot_id = "boot-a", .alive = true, .path = "/s/1.1", .spec = TwoRankSpec(old)};
  found.status = {.key = old, .digest = "d1", .gpus = {kGpu0, kGpu1}};
  found.status.ranks = {{.rank = 0, .started = true, .pid = 100},
                        {.rank = 1, .started = true, .pid = 101}};
  found.tombstone = true;
  RunnerState runner;
  runner.allocations.push_back(std::move(found));
  Rig rig = ConnectedRig(runner);
  rig.Receive(to_node::Retest{kGpu0, true});
  AllocationSpec next = TwoRankSpec(KeyOf(2, 1));
  next.gpus = {kGpu0};
  next.gpu_indices = {0};
  rig.Prepare(next);
  EXPECT_EQ(rig.RefusalCode(), "") << "the kernel is asked, the record does not refuse";
  EXPECT_EQ(rig.Ordered<order::Accept>().size(), 1u);
  rig.StopDone(old, {{kGpu0, "D state"}, {kGpu1, "D state"}});
  ASSERT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  EXPECT_EQ(rig.Sent<from_node::Released>()[0].held,
            (std::vector<std::pair<GpuUuid, std::string>>{{kGpu1, "D state"}}));
}

TEST(AgentQuarantine, ARetestMakesTheProofAgainAndHoldsOnMeanwhile) {
  Rig rig = WithHeldGpus();
  rig.Receive(to_node::Retest{kGpu0, false});
  ASSERT_EQ(rig.Ordered<order::StopAllocation>().size(), 1u);
  EXPECT_EQ(rig.state.allocations.at(kJob).held.size(), 2u);
  rig.StopDone(kJob);
  EXPECT_TRUE(rig.Sent<from_node::Released>().at(0).held.empty());
}

TEST(AgentQuarantine, AReleaseFreesThatGpuOnly) {
  Rig rig = WithHeldGpus();
  rig.Receive(to_node::Retest{kGpu0, true});
  EXPECT_TRUE(rig.Ordered<order::StopAllocation>().empty());
  ASSERT_EQ(rig.Sent<from_node::Released>().size(), 1u);
  const auto held = rig.Sent<from_node::Released>()[0].held;
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].first, kGpu1);
}

TEST(AgentQuarantine, AProofThatFailsAgainDoesNotHoldWhatAnOperatorGaveBack) {
  Rig rig = WithHeldGpus();
  rig.Receive(to_node::Retest{kGpu0, true});
  rig.Clear();
  rig.StopDone(kJob, {{kGpu0, "process in D state"}, {kGpu1, "process in D state"}});
  EXPECT_TRUE(rig.Sent<from_node::Released>().empty()) << "nothing new";
  ASSERT_EQ(rig.state.allocations.at(kJob).held.size(), 1u);
  EXPECT_EQ(rig.state.allocations.at(kJob).held[0].first, kGpu1);
}

TEST(AgentQuarantine, TheLastReleaseForgetsWhatWasToBeForgotten) {
  Rig rig = WithHeldGpus();
  rig.Receive(to_node::Forget{kJob});
  EXPECT_TRUE(rig.Ordered<order::Forget>().empty());
  rig.Receive(to_node::Retest{kGpu0, true});
  rig.Receive(to_node::Retest{kGpu1, true});
  EXPECT_EQ(rig.Ordered<order::Forget>().size(), 1u);
  EXPECT_TRUE(rig.state.allocations.empty());
}

TEST(AgentQuarantine, AnotherGpuIsNotTouched) {
  Rig rig = WithHeldGpus();
  rig.Receive(to_node::Retest{GpuUuid{"GPU-other"}, true});
  EXPECT_TRUE(rig.orders.empty());
}

TEST(AgentBadOrder, AnUnreadableStageAndGoAreRefusedAndTheStreamStays) {
  Rig rig = ConnectedRig();
  rig.Accept(TwoRankSpec(kJob));
  rig.Clear();
  rig.Receive(to_node::Stage{.key = kJob, .refused = "stage.master_port: is out of range"});
  EXPECT_EQ(rig.RefusalCode(), "stage bad_message");
  rig.Receive(to_node::Go{.key = kJob, .refused = "go.digest: is not a digest"});
  EXPECT_EQ(rig.RefusalCode(), "go bad_message");
  EXPECT_EQ(rig.Sent<from_node::Refused>().back().digest, "d1");
  EXPECT_TRUE(rig.Ordered<order::Start>().empty());
  EXPECT_TRUE(rig.Ordered<order::CloseLink>().empty());
  EXPECT_TRUE(rig.state.link.up);
}

TEST(AgentBadOrder, WhatRunsIsNotHarmedByAnUnreadableGo) {
  Rig rig = ConnectedRig();
  rig.Run(TwoRankSpec(kJob));
  rig.Clear();
  rig.Receive(to_node::Go{.key = kJob, .refused = "go.digest: is not a digest"});
  EXPECT_TRUE(rig.orders.empty());
  EXPECT_EQ(rig.PhaseOf(kJob), Phase::kStarted);
}

}  // namespace
}  // namespace launch::agent
