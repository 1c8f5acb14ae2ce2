// Nodes that several jobs failed on.
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Reputation : testing::Test {
  Reputation() {
    core.Attach("gpu1", 1);
    core.Ignore();
    core.verdict = Verdict{};
    core.verdict->label = "ecc";
    core.verdict->action = "retry_elsewhere";
    core.verdict->confidence = Confidence::kConfirmed;
  }
  // A job that is not tried again, of another user each time.
  void FailOne() {
    core.user = UserName{core.user.value == "ana" ? "ben" : "ana"};
    FailOneMore();
  }
  void FailOneMore() {
    JobSpec spec = GpuJob(1, 1);
    spec.retry.max = 0;
    const JobId job = core.Submitted(spec);
    const Key key = core.Run(job);
    core.Exit("gpu1", key, 0, Exited{1});
    core.Release("gpu1", key);
    core.Ignore();
  }
  bool Drained() { return core.state.nodes.at(NodeId{"gpu1"}).drained; }
  TestCore core;
};

TEST_F(Reputation, ANodeThatFailedTwoJobsIsDrainedWithTheReasonAndATest) {
  FailOne();
  EXPECT_FALSE(Drained());
  FailOne();
  ASSERT_TRUE(Drained());
  const NodeView node = core.Node("gpu1");
  EXPECT_EQ(node.state, "drain");
  EXPECT_NE(node.reason.find("job 1 (ecc), job 2 (ecc)"), std::string::npos) << node.reason;
  EXPECT_NE(node.reason.find("launch check gpu1, then launch undrain gpu1"), std::string::npos);
  EXPECT_TRUE(core.HasEvent("node.drained"));
}

TEST_F(Reputation, IsRememberedOverARestart) {
  FailOne();
  core.Restart();
  core.Attach("gpu1", 1);
  core.Ignore();
  FailOne();
  EXPECT_TRUE(Drained());
}

TEST_F(Reputation, ForgetsAfterAWeek) {
  FailOne();
  core.now.wall += Millis{8LL * 24 * 60 * 60 * 1000};
  FailOne();
  EXPECT_FALSE(Drained());
}

TEST_F(Reputation, TheLogsOfOneUserAloneCondemnNoNode) {
  // Whatever it says: a job may print it.
  for (int i = 0; i < 4; ++i) FailOneMore();
  EXPECT_FALSE(Drained());
}

TEST_F(Reputation, OnANodeOfOneUserOnlyWhatTheLogDoesNotSayAloneCounts) {
  core.state.nodes.at(NodeId{"gpu1"}).account = UserName{"ana"};
  core.verdict->confidence = Confidence::kLikely;
  FailOneMore();
  FailOneMore();
  EXPECT_FALSE(Drained());
  core.verdict->confidence = Confidence::kConfirmed;
  FailOneMore();
  FailOneMore();
  EXPECT_TRUE(Drained());
}

TEST_F(Reputation, TheUsersOwnErrorsAreNotTheNodes) {
  for (const char* label : {"python_exception", "cuda_oom_foreign_process", "nccl_timeout"}) {
    core.verdict->label = label;
    FailOne();
  }
  EXPECT_FALSE(Drained());
}

TEST_F(Reputation, AnUndrainStartsAnew) {
  FailOne();
  FailOne();
  const RequestId request{900};
  core.Post(event::Drain{request, {UserName{"root"}, true}, NodeId{"gpu1"}, true, ""});
  core.Ignore();
  EXPECT_FALSE(Drained());
  FailOne();
  EXPECT_FALSE(Drained());
}

// A job of `owner` that is tried once more, fails everywhere, and blames the node it failed on.
struct SharedFault : Reputation {
  SharedFault() {
    core.Attach("gpu2", 1);
    core.verdict->label = "storage_io";
  }
  void FailEverywhere(const char* owner) {
    core.user = UserName{owner};
    JobSpec spec = GpuJob(1, 1);
    spec.retry.max = 1;
    const JobId job = core.Submitted(spec);
    for (std::uint32_t attempt = 1; attempt <= 2; ++attempt) {
      const Key key = core.Run(job);
      const std::string node = core.state.attempts.at(key).nodes.front().value;
      core.Exit(node, key, 0, Exited{1});
      core.Ignore();
      core.Release(node, key);
    }
    core.Ignore();
  }
  int DrainedNodes() {
    int drained = 0;
    for (const auto& [id, node] : core.state.nodes) drained += node.drained ? 1 : 0;
    return drained;
  }
};

TEST_F(SharedFault, OfAFileServerDrainsNoNode) {
  for (const char* owner : {"ana", "ben", "eva", "ana"}) FailEverywhere(owner);
  EXPECT_EQ(DrainedNodes(), 0);
  EXPECT_TRUE(core.HasEvent("node.fault_shared"));
}

TEST_F(SharedFault, OfGpusIsEachNodesOwn) {
  core.verdict->label = "ecc";
  for (const char* owner : {"ana", "ben"}) FailEverywhere(owner);
  EXPECT_EQ(DrainedNodes(), 2);
}

TEST_F(SharedFault, ThatComesBackOnOneNodeAloneIsItsOwn) {
  core.Detach("gpu2");
  FailOne();
  FailOne();
  EXPECT_TRUE(Drained());
}

}  // namespace
}  // namespace launch::controller
