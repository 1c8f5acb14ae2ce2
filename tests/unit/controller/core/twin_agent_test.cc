// Two agents with one identity: a state directory was copied, or a container started twice.
#include <algorithm>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct TwinAgents : testing::Test {
  void Hello(const std::string& instance) {
    from_node::Hello hello;
    hello.instance = instance;
    core.Attach(MakeInventory("gpu1", 1), hello);
  }
  std::size_t Refusals() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        core.rows, [](const EventRow& row) { return row.kind == "node.refused"; }));
  }
  TestCore core;
};

TEST_F(TwinAgents, TheOneThatAnswersKeepsTheNameAndItsJobs) {
  Hello("first");
  const SessionId session = core.session["gpu1"];
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  for (int i = 0; i < 20; ++i) {
    core.now.boot += Millis{500};
    Hello("copy");
    EXPECT_TRUE(core.Closed(core.session["gpu1"]));
    core.session["gpu1"] = session;
    core.Beat("gpu1");
  }
  EXPECT_FALSE(core.Closed(session));
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  EXPECT_EQ(Refusals(), 1u) << "said once a minute";
  EXPECT_NE(core.Node("gpu1").reason.find("copied"), std::string::npos);
  EXPECT_TRUE(core.Node("gpu1").schedulable);
  for (int i = 0; i < 60; ++i) {
    core.now.boot += Millis{3'000};
    core.Beat("gpu1");
  }
  EXPECT_EQ(core.Node("gpu1").reason, "");
}

TEST_F(TwinAgents, ACopyDoesNotTakeTheNameWhileTheTrueAgentIsStartedAgain) {
  Hello("first");
  const SessionId session = core.session["gpu1"];
  const Key key = core.Run(core.Submitted(GpuJob(1, 1)));
  Hello("copy");
  core.session["gpu1"] = session;
  core.Detach("gpu1");
  core.now.boot += Millis{1'000};
  Hello("copy");
  EXPECT_TRUE(core.Closed(core.session["gpu1"]));
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  from_node::Hello hello;
  hello.instance = "first again";
  AllocationStatus status;
  status.key = key;
  status.digest = core.Digest("gpu1", key);
  status.phase = AllocationPhase::kStarted;
  hello.allocations = {status};
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_FALSE(core.Closed(core.session["gpu1"]));
  EXPECT_EQ(core.state.live.nodes.at(NodeId{"gpu1"}).instance, "first again");
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
}

// It was no copy, but lost its state while its old stream still seemed to live.
TEST_F(TwinAgents, OneThatIsAloneHasTheNameBeforeLong) {
  Hello("first");
  const SessionId session = core.session["gpu1"];
  const Key key = core.Run(core.Submitted(GpuJob(1, 1)));
  Hello("second");
  core.session["gpu1"] = session;
  core.Detach("gpu1");
  for (int i = 0; i < 119; ++i) {
    core.now.boot += Millis{1'000};
    Hello("second");
    ASSERT_TRUE(core.Closed(core.session["gpu1"]));
  }
  core.now.boot += Millis{1'000};
  Hello("second");
  EXPECT_FALSE(core.Closed(core.session["gpu1"]));
  EXPECT_NE(core.Phase(key), AttemptPhase::kRunning);
}

TEST_F(TwinAgents, AnAgentThatIsStartedAgainHasTheNameWhenTheOldOneIsGoneOrSilent) {
  Hello("first");
  core.Detach("gpu1");
  Hello("second");
  EXPECT_EQ(Refusals(), 0u);
  core.now.boot += Millis{3'600};  // its stream seems to live, but nothing comes
  core.Pass(Millis{0});
  Hello("third");
  EXPECT_EQ(Refusals(), 0u);
  EXPECT_EQ(core.state.live.nodes.at(NodeId{"gpu1"}).instance, "third");
}

TEST_F(TwinAgents, ANewerStreamOfTheSameAgentReplacesItsOlder) {
  Hello("first");
  const SessionId old = core.session["gpu1"];
  Hello("first");
  EXPECT_TRUE(core.Closed(old));
  EXPECT_EQ(Refusals(), 0u);
}

}  // namespace
}  // namespace launch::controller
