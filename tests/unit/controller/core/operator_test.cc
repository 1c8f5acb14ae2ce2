// What operators may say about nodes and GPUs that cannot prove themselves.
#include <gtest/gtest.h>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

class Operator : public ::testing::Test {
 protected:
  Operator() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
  }
  template <class Reply>
  std::string Outcome(RequestId request) {
    const auto answer = core.Answer<Reply>(request);
    return answer ? std::string("done") : std::string(ErrorCodeName(answer.error().code));
  }
  std::string Fence(const std::string& node, bool is_operator = true) {
    const RequestId request{++last_};
    core.Post(event::FenceNode{request, {UserName{"op"}, is_operator}, NodeId{node}});
    return Outcome<reply::Done>(request);
  }
  std::string Quarantine(QuarantineAction action, const std::string& what,
                         bool is_operator = true) {
    const RequestId request{++last_};
    core.Post(event::Quarantine{request, {UserName{"op"}, is_operator}, action, what});
    return Outcome<reply::Quarantined>(request);
  }
  from_node::Hello With(Key key, AllocationPhase phase, const std::string& node) {
    from_node::Hello hello;
    AllocationStatus status;
    status.key = key;
    status.digest = core.Digest(node, key);
    status.phase = phase;
    status.gpus = {GpuUuid{"GPU-" + node + "-0"}};
    hello.allocations = {status};
    return hello;
  }

  TestCore core;
  std::uint64_t last_ = 900;
};

TEST_F(Operator, FencesOnlyANodeThatDoesNotAnswer) {
  EXPECT_EQ(Fence("gpu2", false), "PERMISSION_DENIED");
  EXPECT_EQ(Fence("gpu9"), "NOT_FOUND");
  EXPECT_EQ(Fence("gpu2"), "FAILED_PRECONDITION") << "what runs there would run twice";
  core.Detach("gpu2");
  EXPECT_EQ(Fence("gpu2"), "done");
  EXPECT_EQ(core.Node("gpu2").state, "fenced");
}

TEST_F(Operator, AFencedNodeGivesBackItsPartAndTheOtherNodesStop) {
  JobSpec spec = GpuJob(2, 1);
  spec.retry.max = 1;
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  core.Detach("gpu2");
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning) << "silence alone does nothing";
  core.Ignore();
  EXPECT_EQ(Fence("gpu2"), "done");
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  core.Exit("gpu1", key, 0, Signalled{15, false});
  core.Release("gpu1", key);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded);
  EXPECT_EQ(core.View(job).attempts.at(0).outcome, "node_fail");
}

TEST_F(Operator, AFencedNodeThatNeverWentDownIsStoppedAndNamed) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Detach("gpu2");
  ASSERT_EQ(Fence("gpu2"), "done");
  core.Ignore();
  core.Attach(MakeInventory("gpu2", 1), With(key, AllocationPhase::kStarted, "gpu2"));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").key, key);
  EXPECT_TRUE(core.HasEvent("node.overlap"));
  EXPECT_NE(core.Node("gpu2").state, "fenced");
}

TEST_F(Operator, AFencedNodeThatWasOffIsTakenBack) {
  core.Detach("gpu2");
  ASSERT_EQ(Fence("gpu2"), "done");
  core.Restart();
  EXPECT_EQ(core.Node("gpu2").state, "fenced") << "that outlives the controller";
  core.boot["gpu2"] = "b2";
  core.Attach("gpu2", 1);
  EXPECT_TRUE(core.HasEvent("node.returned"));
  EXPECT_FALSE(core.HasEvent("node.overlap"));
  EXPECT_TRUE(core.Node("gpu2").schedulable);
}

TEST_F(Operator, ANodeIsNotFencedWhileItMayStillComeBackToARestartedController) {
  core.Restart();
  EXPECT_EQ(Fence("gpu2"), "FAILED_PRECONDITION");
  core.Pass(Millis{29'000});
  EXPECT_EQ(Fence("gpu2"), "FAILED_PRECONDITION");
  core.Pass(Millis{2'000});
  EXPECT_EQ(Fence("gpu2"), "done");
  core.Restart();
  core.Attach("gpu1", 1);
  core.Detach("gpu1");
  EXPECT_EQ(Fence("gpu1"), "done") << "it came, and went: that is known";
}

TEST_F(Operator, AStreamOfAFencedNodeIsHeardNoMore) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Beat("gpu2", 60'000);  // it does not hear us, but we still hear it
  ASSERT_EQ(Fence("gpu2"), "done");
  EXPECT_TRUE(core.Closed(core.session.at("gpu2")));
  core.Exit("gpu2", key, 1, Exited{0});
  EXPECT_TRUE(std::holds_alternative<UnknownEnd>(core.state.ranks.at(key).at(1).exit->cause));
}

class Quarantined : public Operator {
 protected:
  Quarantined() {
    const JobId job = core.Submitted(GpuJob(2, 1));
    key = core.Run(job);
    core.Cancel(job);
    core.Release("gpu1", key, {{gpu, "process in D state"}});
    core.Release("gpu2", key);
    core.Ignore();
  }
  Key key;
  const GpuUuid gpu{"GPU-gpu1-0"};
};

TEST_F(Quarantined, IsListedRetestedAndReleased) {
  EXPECT_EQ(Quarantine(QuarantineAction::kRelease, gpu.value, false), "PERMISSION_DENIED");
  EXPECT_EQ(Quarantine(QuarantineAction::kRelease, "GPU-none"), "NOT_FOUND");
  EXPECT_EQ(Quarantine(QuarantineAction::kRelease, ""), "NOT_FOUND") << "never all at once";
  EXPECT_EQ(Quarantine(QuarantineAction::kRetest, "gpu1"), "done");
  EXPECT_FALSE(core.Told<to_node::Retest>("gpu1").release);
  EXPECT_TRUE(core.state.quarantine.contains(gpu)) << "until the node has proved it";
  EXPECT_EQ(Quarantine(QuarantineAction::kRelease, gpu.value), "done");
  EXPECT_TRUE(core.Told<to_node::Retest>("gpu1").release);
  EXPECT_TRUE(core.state.quarantine.empty());
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
}

TEST_F(Quarantined, AReleasedGpuThatAnotherAttemptHasIsNotHeldForTheOldOne) {
  ASSERT_EQ(Quarantine(QuarantineAction::kRelease, gpu.value), "done");
  const Key next = core.Run(core.Submitted(GpuJob(2, 1)));
  core.Release("gpu1", key, {{gpu, "process in D state"}});  // an agent that was started again
  EXPECT_TRUE(core.state.quarantine.empty());
  EXPECT_EQ(core.Phase(next), AttemptPhase::kRunning);
}

TEST_F(Quarantined, IsNotReleasedBehindTheBackOfItsAgent) {
  core.Detach("gpu1");
  EXPECT_EQ(Quarantine(QuarantineAction::kRelease, gpu.value), "FAILED_PRECONDITION");
  EXPECT_TRUE(core.state.quarantine.contains(gpu));
}

// Its job ended with the fence, its process did not: the Hello says what is held and not for whom.
TEST_F(Operator, FreesAGpuThatANodeHeldForAJobWhichEndedWithItsFence) {
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  const std::string node = core.View(job).attempts.front().nodes.front().value;
  const GpuUuid gpu{"GPU-" + node + "-0"};
  core.Cancel(job);
  core.Detach(node);
  ASSERT_EQ(Fence(node), "done");
  from_node::Hello hello = With(key, AllocationPhase::kReleased, node);
  hello.held = {{gpu, "D state"}};
  const Key tombstone{JobId{77}, Attempt{1}};  // of a stop for what the node never had
  hello.allocations.push_back({.key = tombstone, .phase = AllocationPhase::kReleased});
  core.Attach(MakeInventory(node, 1), hello);
  core.Release(node, tombstone);
  core.Release(node, key, {{gpu, "D state"}});
  ASSERT_TRUE(core.state.quarantine.contains(gpu));
  EXPECT_EQ(core.state.quarantine.at(gpu).key, key);
  core.Release(node, key);
  EXPECT_TRUE(core.state.quarantine.empty());
}

}  // namespace
}  // namespace launch::controller
