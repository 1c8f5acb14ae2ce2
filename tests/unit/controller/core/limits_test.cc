// What a cluster takes on and what it keeps is bounded.
#include <gtest/gtest.h>

#include "controller/core/fold_findings.h"
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

class LimitsTest : public ::testing::Test {
 protected:
  LimitsTest() { core.Attach("gpu1", 1); }
  // One job from its submit to its success.
  JobId Finish() {
    const JobId job = core.Submitted(GpuJob(1, 1));
    const Key key = core.Run(job);
    core.Exit("gpu1", key, 0, Exited{0});
    core.Release("gpu1", key);
    core.Ignore();
    core.state.live.ended.clear();  // as after a minute
    return job;
  }
  std::string SubmitCode() {
    const auto answer = core.Answer<reply::Submitted>(core.Submit(GpuJob(1, 1)));
    return answer ? "ok" : std::string(ErrorCodeName(answer.error().code));
  }
  TestCore core;
};

TEST_F(LimitsTest, AUserHasSoManyOpenJobsAndOthersAreNotHindered) {
  core.state.live.limits.jobs_of_a_user = 2;
  const JobId first = core.Submitted(GpuJob(1, 1));
  core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(SubmitCode(), "RESOURCE_EXHAUSTED");
  core.user = UserName{"bob"};
  EXPECT_EQ(SubmitCode(), "ok");
  core.user = UserName{"ana"};
  core.Cancel(first);
  core.Release("gpu1", Key{first, Attempt{1}});
  EXPECT_EQ(SubmitCode(), "ok") << "what is done does not count";
}

TEST_F(LimitsTest, TheQueueHasALength) {
  core.state.live.limits.queued = 1;
  core.Submitted(GpuJob(1, 1));  // has the GPU
  core.Submitted(GpuJob(1, 1));  // waits
  EXPECT_EQ(SubmitCode(), "RESOURCE_EXHAUSTED");
}

TEST_F(LimitsTest, AJobThatTheStoreCannotHoldEndsAndItsGpuIsFreeAgain) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  core.Run(job);
  core.Post(event::Unstorable{job, "row job/1 would have 2000000 bytes"});
  core.Release("gpu1", Key{job, Attempt{1}});
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  EXPECT_EQ(core.View(job).cancelled_by, "controller");
  core.Post(event::Unstorable{JobId{99}, "was never stored"});
  core.Run(core.Submitted(GpuJob(1, 1)));
}

// One cause on a thousand nodes is a row of the store that fits.
TEST(FoldFindings, TellsTheFirstNodesOfACodeAndNamesTheOthers) {
  std::vector<Finding> findings;
  for (int i = 100; i < 1100; ++i) {
    findings.push_back({"setup_failed", Severity::kError, NodeId{"gpu" + std::to_string(i)},
                        "`setup` ended with exit 1", std::string(4096, 'x'), "run it by hand"});
  }
  findings.push_back({"gpu_busy", Severity::kWarning, NodeId{"gpu100"}, "is busy", "", ""});
  const std::vector<Finding> folded = FoldFindings(findings);
  ASSERT_EQ(folded.size(), kFindingsPerCode + 2);
  EXPECT_EQ(folded.front(), findings.front()) << "with its whole evidence";
  EXPECT_LT(folded.at(1).evidence.size(), 600u);
  EXPECT_EQ(folded.at(kFindingsPerCode), findings.back());
  EXPECT_EQ(folded.back().severity, Severity::kError);
  EXPECT_EQ(folded.back().says, "the same on 992 more: gpu[108-1099]");
  EXPECT_EQ(FoldFindings(folded), folded);
}

// Nodes of a gang refuse one after another, and each refusal is folded into what is there.
TEST(FoldFindings, WhatIsAddedLengthensTheOneSummaryOfItsCode) {
  const auto add = [](std::vector<Finding>& folded, const std::string& node) {
    folded.push_back({"port_busy", Severity::kError, NodeId{node}, "no port is free", "", ""});
    folded = FoldFindings(folded);
  };
  std::vector<Finding> folded;
  for (int i = 10; i < 30; ++i) add(folded, "gpu" + std::to_string(i));
  ASSERT_EQ(folded.size(), kFindingsPerCode + 1);
  EXPECT_EQ(folded.back().says, "the same on 12 more: gpu[18-29]");
  folded.push_back({"gpu_busy", Severity::kError, NodeId{"gpu10"}, "is busy", "", ""});
  add(folded, "gpu30");
  ASSERT_EQ(folded.size(), kFindingsPerCode + 2);
  EXPECT_EQ(folded.back().says, "the same on 13 more: gpu[18-30]");
  EXPECT_EQ(FoldFindings(folded), folded);
}

TEST(FoldFindings, ASummaryWhoseNamesWereCutStillCounts) {
  std::vector<Finding> folded;
  for (int i = 0; i < 200; ++i) {
    // The letters keep the names apart: no range is shorter.
    const NodeId node{"n" + std::to_string(i) + std::string(1 + i % 3, "abc"[i % 3])};
    folded.push_back({"port_busy", Severity::kError, node, "no port is free", "", ""});
    folded = FoldFindings(folded);
    ASSERT_LE(folded.size(), kFindingsPerCode + 1);
    ASSERT_LE(folded.back().says.size(), 600u);
  }
  EXPECT_EQ(folded.back().says.rfind("the same on 192 more: ", 0), 0u) << folded.back().says;
  EXPECT_EQ(FoldFindings(folded), folded);
}

TEST_F(LimitsTest, AGangWhoseNodesAllRefuseHasOneSummary) {
  for (int i = 10; i < 30; ++i) core.Attach("n" + std::to_string(i), 1);
  const JobId job = core.Submitted(GpuJob(20, 1));
  const Key key{job, Attempt{1}};
  const std::vector<NodeId> nodes = core.state.attempts.at(key).nodes;  // each word changes them
  for (const NodeId& node : nodes) {
    core.Say(node.value,
             from_node::Refused{
                 key, core.Digest(node.value, key), "accept", "port_busy", "no port is free", {}});
  }
  EXPECT_EQ(core.state.jobs.at(job).findings.size(), kFindingsPerCode + 1);
}

TEST_F(LimitsTest, AFullDiskRefusesSubmitsAndNothingElse) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  core.Run(job);
  core.Post(event::StoreSpace{true});
  EXPECT_EQ(SubmitCode(), "RESOURCE_EXHAUSTED");
  core.Cancel(job);
  core.Release("gpu1", Key{job, Attempt{1}});
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  core.Post(event::StoreSpace{false});
  EXPECT_EQ(SubmitCode(), "ok");
}

TEST_F(LimitsTest, TheOldestJobsLeaveWithAllThatBelongsToThem) {
  core.state.live.limits.done = 2;
  const JobId first = Finish();
  core.Pass(Millis{1000});
  Finish();
  core.Pass(Millis{1000});
  const JobId last = Finish();
  EXPECT_FALSE(core.state.jobs.contains(first));
  EXPECT_FALSE(core.state.specs.contains(first));
  EXPECT_FALSE(core.state.attempts.contains(Key{first, Attempt{1}}));
  EXPECT_FALSE(core.state.allocs.contains(Key{first, Attempt{1}}));
  EXPECT_FALSE(core.state.ranks.contains(Key{first, Attempt{1}}));
  EXPECT_EQ(core.state.idem.size(), 2u);
  EXPECT_TRUE(core.state.jobs.contains(last));
  core.Restart();
  EXPECT_EQ(core.state.jobs.size(), 2u) << "and the store agrees";
  EXPECT_EQ(core.state.plan_chunks.size(), 0u);
}

TEST_F(LimitsTest, AnArrayCountsAsItsElements) {
  core.state.live.limits.jobs_of_a_user = 3;
  JobSpec spec = GpuJob(1, 1);
  spec.array = ArraySpec{.indices = {0, 1, 2, 3}};
  EXPECT_FALSE(core.Answer<reply::Submitted>(core.Submit(spec)));
  spec.array->indices.pop_back();
  EXPECT_TRUE(core.Answer<reply::Submitted>(core.Submit(spec)));
  EXPECT_EQ(SubmitCode(), "RESOURCE_EXHAUSTED");
}

TEST_F(LimitsTest, WhatAWaitingJobLooksAtStays) {
  core.state.live.limits.done = 1;
  const JobId first = Finish();
  core.Submitted(GpuJob(1, 1));  // has the GPU
  JobSpec after = GpuJob(1, 1);
  after.depends_on = {{DependencyKind::kAfterOk, first}};
  core.Submitted(after);
  for (int i = 0; i < 3; ++i) {
    core.Pass(Millis{120'000});
    core.Cancel(core.Submitted(GpuJob(1, 1)));
  }
  EXPECT_TRUE(core.state.jobs.contains(first));
}

TEST_F(LimitsTest, WhatIsNotProvedGoneStays) {
  core.state.live.limits.done = 1;
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  core.Release("gpu1", key, {{GpuUuid{"GPU-gpu1-0"}, "process in D state"}});
  core.Attach("gpu2", 1);
  for (int i = 0; i < 2; ++i) {
    const JobId next = core.Submitted(GpuJob(1, 1));
    const Key run = core.Run(next);
    core.Exit("gpu2", run, 0, Exited{0});
    core.Release("gpu2", run);
    core.Ignore();
  }
  EXPECT_TRUE(core.state.jobs.contains(job)) << "its GPU is quarantined";
  core.state.live.ended.clear();
  core.Release("gpu1", key);
  EXPECT_FALSE(core.state.jobs.contains(job));
}

}  // namespace
}  // namespace launch::controller
