#include "controller/core/checkpoint_tie.h"

#include <algorithm>
#include <set>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

const PathFact kOnDiskHere{.what = "local_disk", .path = "/scratch/out", .ok = true};

struct Tied : testing::Test {
  Tied() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Ignore();
  }
  static JobSpec Saving(int gpus = 1) {
    JobSpec spec = GpuJob(1, gpus);
    spec.checkpoint.dir = "/scratch/out";
    return spec;
  }
  // Everything is heard but the nodes that are named.
  void Wait(Millis time, const std::set<std::string>& silent = {}) {
    while (time > Millis{0}) {
      const Millis step = std::min(time, Millis{3'000});
      time -= step;
      core.now.boot += step;
      core.now.wall += step;
      for (const char* node : {"gpu1", "gpu2"}) {
        if (!silent.contains(node) && core.session.contains(node)) core.Beat(node);
      }
      core.Pass(Millis{0});
    }
  }
  // The newest attempt runs for so long, on gpu1, with checkpoints on a disk there.
  Key Run(JobId job, Millis time, bool local = true) {
    const Key key{job, Attempt{core.state.jobs.at(job).attempts}};
    const NodeId node = core.state.attempts.at(key).nodes.front();
    EXPECT_EQ(node.value, "gpu1");
    core.Accept(node.value, key);
    StagingFacts facts;
    if (local) facts.paths.push_back(kOnDiskHere);
    core.Ready(node.value, key, facts);
    core.Start(node.value, key);
    EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
    Wait(time);
    return key;
  }
  // By the fault of its node, which then does not answer.
  void EndAndCutOff(const Key& key) {
    core.Exit("gpu1", key, 0, FailedToStart{"agent_restarted", 0, "agent restarted"});
    core.Release("gpu1", key);
    core.Detach("gpu1");
    Wait(Millis{30'000}, {"gpu1"});
  }
  std::vector<NodeId> NodesOf(JobId job) {
    const auto last = core.state.attempts.find(Key{job, Attempt{core.state.jobs.at(job).attempts}});
    return last == core.state.attempts.end() ? std::vector<NodeId>{} : last->second.nodes;
  }
  std::string Reason(JobId job) { return core.View(job).reason.evidence; }
  void Drain(bool undrain) {
    core.Post(event::Drain{
        RequestId{++request}, {UserName{"op"}, true}, NodeId{"gpu1"}, undrain, "fans"});
  }
  TestCore core;
  std::uint64_t request = 900;
};

TEST_F(Tied, ARetryWaitsForTheNodeThatHasTheCheckpoints) {
  const JobId job = core.Submitted(Saving());
  EndAndCutOff(Run(job, Millis{120'000}));
  EXPECT_EQ(core.state.jobs.at(job).attempts, 1u) << "gpu2 is free, but has none of them";
  EXPECT_NE(Reason(job).find("its checkpoints are on a disk of gpu1, so it waits 20m at most"),
            std::string::npos)
      << Reason(job);
  EXPECT_TRUE(core.HasEvent("job.waits_for_checkpoint"));
  core.Attach("gpu1", 1);
  EXPECT_EQ(NodesOf(job), (std::vector{NodeId{"gpu1"}}));
  EXPECT_EQ(core.state.jobs.at(job).attempts, 2u);
  EXPECT_FALSE(core.HasEvent("job.leaves_checkpoint"));
}

TEST_F(Tied, ButNotForEver) {
  const JobId job = core.Submitted(Saving());
  EndAndCutOff(Run(job, Millis{120'000}));
  Wait(kTieKept - Millis{30'000}, {"gpu1"});
  EXPECT_EQ(core.state.jobs.at(job).attempts, 1u);
  Wait(Millis{33'000}, {"gpu1"});
  EXPECT_TRUE(core.HasEvent("job.leaves_checkpoint"));
  EXPECT_EQ(NodesOf(job), (std::vector{NodeId{"gpu2"}}));
}

// It began while the controller's clock was an hour ahead.
TEST_F(Tied, AlsoWhereTheClockWasPutRightWhileItRan) {
  core.host_boot = "boot";
  core.Restart();
  core.session.clear();
  for (const char* node : {"gpu1", "gpu2"}) core.Attach(node, 1);
  core.now.wall += Millis{3'600'000};
  const JobId job = core.Submitted(Saving());
  const Key key = Run(job, Millis{120'000});
  core.now.wall -= Millis{3'600'000};
  EndAndCutOff(key);
  ASSERT_LT(core.state.attempts.at(key).ended, core.state.attempts.at(key).started);
  EXPECT_EQ(core.state.attempts.at(key).ran, Millis{120'000});
  EXPECT_EQ(core.state.jobs.at(job).attempts, 1u) << "gpu2 is free, but has none of them";
  EXPECT_TRUE(core.HasEvent("job.waits_for_checkpoint"));
}

TEST_F(Tied, GoesElsewhereAtOnceWhereAllSeeThemOrNoneWereMade) {
  for (const bool local : {false, true}) {
    const JobId job = core.Submitted(Saving());
    EndAndCutOff(Run(job, local ? Millis{30'000} : Millis{120'000}, local));
    EXPECT_EQ(NodesOf(job), (std::vector{NodeId{"gpu2"}})) << local;
    core.Cancel(job);
    core.Release("gpu2", Key{job, Attempt{2}});
    core.Attach("gpu1", 1);
  }
}

TEST_F(Tied, WithRequeueAfterNoLongerThanThat) {
  JobSpec spec = Saving();
  spec.requeue_after = Millis{120'000};
  const JobId job = core.Submitted(spec);
  EndAndCutOff(Run(job, Millis{120'000}));
  Wait(Millis{84'000}, {"gpu1"});
  EXPECT_EQ(core.state.jobs.at(job).attempts, 1u) << "silent for 114 s";
  Wait(Millis{9'000}, {"gpu1"});
  EXPECT_EQ(NodesOf(job), (std::vector{NodeId{"gpu2"}}));
  EXPECT_TRUE(core.HasEvent("job.leaves_checkpoint"));
}

TEST_F(Tied, NotToANodeThatAnOperatorFencedOrForgot) {
  for (const bool fence : {true, false}) {
    const JobId job = core.Submitted(Saving());
    EndAndCutOff(Run(job, Millis{120'000}));
    ASSERT_EQ(core.state.attempts.count(Key{job, Attempt{2}}), 0u);
    const Caller op{UserName{"op"}, true};
    if (fence) {
      core.Post(event::FenceNode{RequestId{++request}, op, NodeId{"gpu1"}});
    } else {
      core.Post(event::ForgetNode{RequestId{++request}, op, NodeId{"gpu1"}});
    }
    EXPECT_EQ(NodesOf(job), (std::vector{NodeId{"gpu2"}})) << fence;
    core.Cancel(job);
    core.Release("gpu2", Key{job, Attempt{2}});
    core.boot["gpu1"] = "booted again";
    core.Attach("gpu1", 1);
  }
}

TEST_F(Tied, AnotherAgentOfTheSameMachineHasTheDiskToo) {
  core.boot["gpu2"] = core.boot["gpu1"];
  core.Detach("gpu2");
  core.Attach("gpu2", 1);
  const JobId job = core.Submitted(Saving());
  EndAndCutOff(Run(job, Millis{120'000}));
  EXPECT_EQ(NodesOf(job), (std::vector{NodeId{"gpu2"}}));
}

TEST_F(Tied, ARestartOfTheControllerForgetsNoTie) {
  const JobId job = core.Submitted(Saving());
  EndAndCutOff(Run(job, Millis{120'000}));
  core.Restart();
  core.session.clear();
  core.Attach("gpu2", 1);
  Wait(Millis{60'000}, {"gpu1"});
  EXPECT_EQ(core.state.jobs.at(job).attempts, 1u);
  EXPECT_NE(Reason(job).find("on a disk of gpu1"), std::string::npos) << Reason(job);
}

// Sent to the queue by a drain, the job waits for both GPUs of gpu1, of which a more urgent one got
// the first.
TEST_F(Tied, TheJobsBehindItDoNotTakeItsNode) {
  core.Detach("gpu1");
  core.Attach("gpu1", 2);
  const JobId job = core.Submitted(Saving(2));
  const Key key = Run(job, Millis{120'000});
  core.Exit("gpu1", key, 0, FailedToStart{"agent_restarted", 0, "agent restarted"});
  Drain(false);
  core.Release("gpu1", key);
  JobSpec urgent = GpuJob(1, 1);
  urgent.nodelist = {"gpu1"};
  urgent.priority = 90;
  const JobId first = core.Submitted(urgent);
  Wait(Millis{30'000});
  Drain(true);
  EXPECT_EQ(NodesOf(first), (std::vector{NodeId{"gpu1"}})) << "it is not behind";
  EXPECT_EQ(core.View(job).reason.code, "Resources");
  const JobId second = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(NodesOf(second), (std::vector{NodeId{"gpu2"}})) << "what the job cannot use is free";
  const JobId third = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.state.jobs.at(third).attempts, 0u);
  EXPECT_NE(Reason(third).find("gpu1 is kept for job " + std::to_string(job.value)),
            std::string::npos)
      << Reason(third);
  core.Cancel(first);
  core.Release("gpu1", Key{first, Attempt{1}});
  EXPECT_EQ(core.state.jobs.at(job).attempts, 2u);
}

TEST_F(Tied, SaysAtTheStartThatRetriesWaitForTheDisk) {
  const JobId job = core.Submitted(Saving());
  Run(job, Millis{0});
  const std::vector<Finding> findings = core.View(job).findings;
  const auto said = std::ranges::find(findings, "checkpoint_local", &Finding::code);
  ASSERT_NE(said, findings.end());
  EXPECT_EQ(said->says,
            "checkpoint.dir is on a disk of gpu1: a retry waits 20m for that before it begins "
            "elsewhere from the first step");
}

// One of them serves the directory that the other mounts.
TEST_F(Tied, NotWhereOneNodeOfTheAttemptSeesTheDiskOfTheOther) {
  JobSpec spec = GpuJob(2, 1);
  spec.checkpoint.dir = "/home/out";
  const JobId job = core.Submitted(spec);
  const Key key{job, Attempt{1}};
  for (const char* node : {"gpu1", "gpu2"}) core.Accept(node, key);
  StagingFacts facts;
  facts.paths.push_back(kOnDiskHere);
  core.Ready("gpu1", key, facts);
  core.Ready("gpu2", key);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kLaunching);
  EXPECT_FALSE(core.state.attempts.at(key).local_checkpoints);
}

}  // namespace
}  // namespace launch::controller
