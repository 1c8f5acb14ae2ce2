#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct InPlace : TwoNodes {
  JobSpec Gang() {
    JobSpec spec = GpuJob(2, 1);
    spec.retry.max = 2;
    return spec;
  }
  // One rank fails by itself, the other is stopped for it.
  void Fail(const Key& key) {
    core.Exit("gpu1", key, 0, Exited{33});
    core.Exit("gpu2", key, 1, Signalled{15, false});
    core.Ignore();
  }
  void FailAndRelease(const Key& key) {
    Fail(key);
    core.Release("gpu1", key);
    core.Release("gpu2", key);
  }
  // The silence of others aside, nothing happens.
  void Wait(Millis time) {
    core.now.boot += time;
    core.now.wall += time;
    for (const char* node : {"gpu1", "gpu2"}) core.Beat(node);
    core.Pass(Millis{0});
  }
  JobId Urgent() {
    JobSpec spec = GpuJob(2, 1);
    spec.priority = 90;
    return core.Submitted(spec);
  }
};

TEST_F(InPlace, NobodyGetsTheNodesBetweenTwoAttemptsHoweverUrgent) {
  const JobId job = core.Submitted(Gang());
  const Key first = core.Run(job);
  const JobId other = Urgent();
  JobSpec small = GpuJob(1, 1);
  small.priority = 99;
  const JobId another = core.Submitted(small);
  Fail(first);
  core.Release("gpu1", first);  // gpu2 takes longer: gpu1 is not for others meanwhile
  EXPECT_TRUE(core.View(another).attempts.empty());
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());
  core.Release("gpu2", first);
  const JobView view = core.View(job);
  EXPECT_EQ(view.state, JobState::kStarting);
  ASSERT_EQ(view.attempts.size(), 2u);
  EXPECT_EQ(view.attempts[1].nodes, view.attempts[0].nodes);
  EXPECT_TRUE(core.View(other).attempts.empty());
  EXPECT_TRUE(core.View(another).attempts.empty());
  EXPECT_TRUE(core.HasEvent("job.restarts"));
  EXPECT_FALSE(core.HasEvent("job.requeued"));
}

TEST_F(InPlace, GoComesAfterEveryRankOfTheAttemptBeforeIsGone) {
  const JobId job = core.Submitted(Gang());
  const Key first = core.Run(job);
  const Key second{job, Attempt{2}};
  Fail(first);
  core.Release("gpu1", first);
  EXPECT_FALSE(core.WasTold<to_node::Prepare>("gpu1"));
  core.Release("gpu2", first);
  EXPECT_EQ(core.Told<to_node::Prepare>("gpu1").spec.key, second);
  EXPECT_EQ(core.Told<to_node::Prepare>("gpu2").spec.key, second);
}

TEST_F(InPlace, LooksForNothingThatItKnowsAndTakesTheNewPort) {
  const JobId job = core.Submitted(Gang());
  FailAndRelease(core.Run(job));
  core.Ignore();
  const Key second{job, Attempt{2}};
  core.Accept("gpu1", second, 29504);
  core.Accept("gpu2", second, 29504);
  EXPECT_FALSE(core.WasTold<to_node::Stage>("gpu1"));
  EXPECT_FALSE(core.WasTold<to_node::Stage>("gpu2"));
  EXPECT_EQ(core.Told<to_node::Go>("gpu1").master_port, 29504);
  EXPECT_EQ(core.Told<to_node::Go>("gpu2").master_port, 29504);
  core.Start("gpu1", second);
  core.Start("gpu2", second);
  EXPECT_EQ(core.Phase(second), AttemptPhase::kRunning);
}

TEST_F(InPlace, LooksForCheckpointsAgainAndForNothingElse) {
  JobSpec spec = Gang();
  spec.checkpoint.dir = "/ckpt";
  const JobId job = core.Submitted(spec);
  FailAndRelease(core.Run(job));
  core.Ignore();
  const Key second{job, Attempt{2}};
  core.Accept("gpu1", second);
  core.Accept("gpu2", second);
  StagingFacts found;
  found.checkpoints = {{.path = "/ckpt/s7.pt", .step = 7, .format = "torch", .complete = true}};
  for (const char* node : {"gpu1", "gpu2"}) {  // both at once: there is no marker to wait for
    const auto stage = core.Told<to_node::Stage>(node);
    EXPECT_TRUE(stage.again);
    EXPECT_TRUE(stage.find_checkpoint);
    EXPECT_TRUE(stage.marker.empty());
    EXPECT_TRUE(stage.masters.empty());
  }
  // No reachability in the answers: that of the attempt before holds.
  core.Say("gpu1", from_node::Ready{second, core.Digest("gpu1", second), found});
  core.Say("gpu2", from_node::Ready{second, core.Digest("gpu2", second), found});
  ASSERT_EQ(core.Phase(second), AttemptPhase::kLaunching);
  EXPECT_EQ(core.state.attempts.at(second).resumed_from, "/ckpt/s7.pt");
  EXPECT_EQ(core.state.attempts.at(second).master_address,
            core.state.attempts.at(Key{job, Attempt{1}}).master_address);
}

// One did not hear of the other: that they reach each other was proved before that.
TEST_F(InPlace, TheNetworkIsProvedAgainAfterAnEndThatLeavesItInDoubt) {
  core.verdict = Verdict{.label = "rendezvous_timeout", .action = "retry_same"};
  core.verdict->confidence = Confidence::kLikely;
  JobSpec spec = Gang();
  spec.preflight = PreflightLevel::kFull;
  spec.preflight_network = NetworkCheck::kSkip;
  const JobId job = core.Submitted(spec);
  FailAndRelease(core.Run(job));
  core.Ignore();
  ASSERT_TRUE(core.HasEvent("job.restarts"));
  const Key second{job, Attempt{2}};
  core.Accept("gpu1", second);
  core.Accept("gpu2", second);
  EXPECT_FALSE(core.Told<to_node::Stage>("gpu1").again);
  core.Ready("gpu1", second);
  const auto stage = core.Told<to_node::Stage>("gpu2");
  EXPECT_FALSE(stage.again);
  EXPECT_FALSE(stage.masters.empty());
  core.Ready("gpu2", second);
  EXPECT_EQ(core.Phase(second), AttemptPhase::kLaunching);
}

TEST_F(InPlace, OneNodeHasNoWayToProve) {
  core.verdict = Verdict{.label = "hang", .action = "retry_same"};
  core.verdict->confidence = Confidence::kLikely;
  JobSpec spec = GpuJob(1, 1);
  spec.retry.max = 2;
  const JobId job = core.Submitted(spec);
  const Key first = core.Run(job);
  const std::string node = core.View(job).attempts[0].nodes[0].value;
  core.Exit(node, first, 0, Exited{33});
  core.Release(node, first);
  core.Ignore();
  core.Accept(node, Key{job, Attempt{2}});
  EXPECT_FALSE(core.WasTold<to_node::Stage>(node));
  EXPECT_TRUE(core.WasTold<to_node::Go>(node));
}

// What the attempt before found holds no more, and its GPUs have a proof to pass.
TEST_F(InPlace, ANodeThatIsBootedMeanwhileGivesThePlaceUp) {
  for (const bool stages : {false, true}) {
    TestCore fresh;
    fresh.Attach("gpu1", 1);
    fresh.Attach("gpu2", 1);
    fresh.Ignore();
    JobSpec spec = Gang();
    if (stages) spec.checkpoint.dir = "/ckpt";
    const JobId job = fresh.Submitted(spec);
    const Key first = fresh.Run(job);
    fresh.Exit("gpu1", first, 0, Exited{33});
    fresh.Exit("gpu2", first, 1, Signalled{15, false});
    fresh.Release("gpu1", first);
    fresh.Release("gpu2", first);
    fresh.Ignore();
    const Key second{job, Attempt{2}};
    fresh.Accept("gpu1", second);
    if (stages) fresh.Accept("gpu2", second);  // both are asked to look for checkpoints
    ASSERT_EQ(fresh.Phase(second), AttemptPhase::kPreparing);
    fresh.Detach("gpu1");
    fresh.boot["gpu1"] = "b2-gpu1";
    fresh.Attach("gpu1", 1);
    EXPECT_EQ(fresh.Phase(second), AttemptPhase::kEnded);
    fresh.Release("gpu1", second);
    fresh.Release("gpu2", second);
    ASSERT_EQ(fresh.View(job).attempts.size(), 3u) << "at once, and it costs no retry";
    EXPECT_EQ(fresh.state.jobs.at(job).retries.at("failure"), 1);
    fresh.Ignore();
    const Key third{job, Attempt{3}};
    fresh.Accept("gpu1", third);
    fresh.Accept("gpu2", third);
    EXPECT_FALSE(fresh.Told<to_node::Stage>("gpu1").again);
  }
}

TEST_F(InPlace, KeepsItsPlaceDuringTheBackoff) {
  JobSpec spec = Gang();
  spec.retry.backoff = Millis{2'000};
  const JobId job = core.Submitted(spec);
  const Key first = core.Run(job);
  const JobId other = Urgent();
  FailAndRelease(first);
  EXPECT_EQ(core.View(job).reason.code, "BeginTime");
  EXPECT_EQ(core.View(job).nodelist, core.View(job).attempts[0].nodes);
  EXPECT_EQ(core.Node("gpu2").jobs, std::vector<JobId>{job});
  EXPECT_EQ(core.Node("gpu2").state, "alloc");
  Wait(Millis{1'000});
  EXPECT_EQ(core.View(job).attempts.size(), 1u);
  EXPECT_TRUE(core.View(other).attempts.empty());
  Wait(Millis{1'000});
  EXPECT_EQ(core.View(job).attempts.size(), 2u);
  EXPECT_TRUE(core.View(other).attempts.empty());
}

TEST_F(InPlace, KeepsItsPlaceOverARestartOfTheController) {
  JobSpec spec = Gang();
  spec.retry.backoff = Millis{2'000};
  const JobId job = core.Submitted(spec);
  FailAndRelease(core.Run(job));
  const JobId other = Urgent();
  core.Restart();
  core.now.boot += Millis{2'000};
  core.Attach("gpu1", 1);
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());
  core.Attach("gpu2", 1);
  Wait(Millis{0});
  EXPECT_EQ(core.View(job).attempts.size(), 2u);
  EXPECT_TRUE(core.View(other).attempts.empty());
  core.Ignore();
  const Key second{job, Attempt{2}};
  core.Accept("gpu1", second);
  core.Accept("gpu2", second);
  EXPECT_FALSE(core.Told<to_node::Stage>("gpu1").again) << "what was found is not stored";
}

TEST_F(InPlace, GoesElsewhereWhenANodeIsGone) {
  JobSpec spec = Gang();
  spec.retry.backoff = Millis{30'000};
  const JobId job = core.Submitted(spec);
  FailAndRelease(core.Run(job));
  core.Detach("gpu2");
  core.Attach("gpu3", 1);
  const auto pass = [&](Millis time) {
    core.now.boot += time;
    core.now.wall += time;
    core.Beat("gpu1");
    core.Beat("gpu3");
    core.Pass(Millis{0});
  };
  pass(Millis{10'000});
  EXPECT_EQ(core.state.jobs.at(job).keeps, 1u) << "an agent that is started again is back by then";
  pass(Millis{10'000});
  EXPECT_EQ(core.state.jobs.at(job).keeps, 0u);
  EXPECT_TRUE(core.HasEvent("job.leaves_place"));
  pass(Millis{10'000});
  ASSERT_EQ(core.View(job).attempts.size(), 2u);
  EXPECT_EQ(core.View(job).attempts[1].nodes, (std::vector<NodeId>{{"gpu1"}, {"gpu3"}}));
}

TEST_F(InPlace, GoesElsewhereAtOnceWhenANodeIsDrainedOrAGpuBroke) {
  core.Attach("gpu3", 1);
  const JobId drained = core.Submitted(Gang());
  const Key first = core.Run(drained);
  core.Post(event::Drain{RequestId{900}, {UserName{"root"}, true}, NodeId{"gpu2"}, false, "fans"});
  FailAndRelease(first);
  EXPECT_EQ(core.View(drained).attempts.back().nodes, (std::vector<NodeId>{{"gpu1"}, {"gpu3"}}));
  core.Post(event::Drain{RequestId{901}, {UserName{"root"}, true}, NodeId{"gpu2"}, true, ""});
  const Key second = core.Run(drained);
  core.Exit("gpu1", second, 0, Exited{33});
  NodeInventory broken = MakeInventory("gpu3", 1);
  broken.gpus[0].health = Health::kBad;
  core.Say("gpu3", from_node::InventoryChanged{broken});
  core.Release("gpu1", second);
  core.Release("gpu3", second);
  EXPECT_EQ(core.View(drained).attempts.back().nodes, (std::vector<NodeId>{{"gpu1"}, {"gpu2"}}));
}

TEST_F(InPlace, GoesBackToTheNodesThatMayHaveItsCheckpointsWhereThatIsPossible) {
  JobSpec spec = GpuJob(1, 1);
  spec.retry.max = 1;
  spec.retry.backoff = Millis{600'000};  // too long to keep a place
  spec.checkpoint.dir = "/local";
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  ASSERT_EQ(core.View(job).attempts[0].nodes, std::vector<NodeId>{{"gpu2"}});
  core.Exit("gpu2", key, 0, Exited{33});
  core.Release("gpu2", key);
  core.Cancel(first);
  core.Release("gpu1", Key{first, Attempt{1}});
  for (int i = 0; i < 200; ++i) Wait(Millis{3'000});
  ASSERT_EQ(core.View(job).attempts.size(), 2u);
  EXPECT_EQ(core.View(job).attempts[1].nodes, std::vector<NodeId>{{"gpu2"}});
}

TEST_F(InPlace, WhatAUserDoesMeanwhileGivesThePlaceUp) {
  for (const char* what : {"cancel", "hold", "nodes", "begin"}) {
    JobSpec spec = Gang();
    spec.retry.backoff = Millis{30'000};
    const JobId job = core.Submitted(spec);
    FailAndRelease(core.Run(job));
    ASSERT_EQ(core.state.jobs.at(job).keeps, 1u);
    if (std::string(what) == "cancel") {
      core.Cancel(job);
    } else {
      JobChange change;
      change.action = std::string(what) == "hold" ? JobAction::kHold : JobAction::kUpdate;
      if (std::string(what) == "nodes") change.nodes = NodeCount{1, 1, false};
      if (std::string(what) == "begin") change.begin = core.now.wall + Millis{86'400'000};
      core.Post(event::Change{RequestId{800}, {UserName{"ana"}, false}, {job}, change});
    }
    EXPECT_EQ(core.state.jobs.at(job).keeps, 0u) << what;
    EXPECT_FALSE(core.state.live.staged.contains(job)) << what;
    const JobId other = Urgent();
    EXPECT_EQ(core.View(other).attempts.size(), 1u) << what;
    core.Cancel(other);
    for (const char* node : {"gpu1", "gpu2"}) core.Release(node, Key{other, Attempt{1}});
    core.Cancel(job);
    core.Ignore();
  }
}

TEST_F(InPlace, AWallClockThatWentBackGivesThePlaceUp) {
  JobSpec spec = Gang();
  spec.retry.backoff = Millis{2'000};
  spec.begin = core.now.wall;
  const JobId job = core.Submitted(spec);
  FailAndRelease(core.Run(job));
  ASSERT_EQ(core.state.jobs.at(job).keeps, 1u);
  core.now.wall -= Millis{86'400'000};
  Wait(Millis{2'000});
  Wait(Millis{0});
  EXPECT_EQ(core.state.jobs.at(job).keeps, 0u);
  EXPECT_TRUE(core.HasEvent("job.leaves_place"));
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
}

TEST_F(InPlace, OneNodeThatDoesNotEndItsPartDoesNotKeepTheOthersForEver) {
  JobSpec spec = Gang();
  spec.retry.max.reset();
  spec.stop_duration = Millis{10'000};
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  Fail(key);
  core.Release("gpu1", key);
  for (int i = 0; i < 69; ++i) Wait(Millis{1'000});
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());
  EXPECT_TRUE(NextDeadline(core.state) <= core.now.boot + Millis{1'000});
  Wait(Millis{1'000});
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
}

TEST_F(InPlace, TheLastRetryKeepsNothing) {
  JobSpec spec = Gang();
  spec.retry.max = 1;
  const JobId job = core.Submitted(spec);
  FailAndRelease(core.Run(job));
  const Key second = core.Run(job);
  Fail(second);
  core.Release("gpu1", second);
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
}

TEST_F(InPlace, NobodyGetsTheCoresWhileThePlanIsMade) {
  const JobId job = core.Submitted(Gang());
  const Key first = core.Run(job);
  AllocRecord planned = core.state.allocs.at(first).at(NodeId{"gpu1"});
  planned.cpus = 8;  // as a plan has it that takes the cores of its GPUs
  Apply(core.state, Put{planned});
  core.answer_plans = false;
  FailAndRelease(first);
  ASSERT_TRUE(core.state.live.holds.contains(job));
  const std::vector<effect::NodeOffer> offers = MakeOffers(core.state);
  EXPECT_EQ(offers.front().inventory->node, NodeId{"gpu1"});
  EXPECT_EQ(offers.front().free_cpus, 0);
}

TEST_F(InPlace, ANodeThatWouldNotTakeItAnyMoreSendsItToTheQueue) {
  JobSpec spec = Gang();
  spec.retry.backoff = Millis{2'000};
  spec.cpus = Amount{8};
  const JobId job = core.Submitted(spec);
  FailAndRelease(core.Run(job));
  core.Say("gpu2", from_node::InventoryChanged{MakeInventory("gpu2", 1, 4)});
  ASSERT_EQ(core.state.jobs.at(job).keeps, 1u);
  Wait(Millis{2'000});
  EXPECT_EQ(core.state.jobs.at(job).keeps, 0u);
  EXPECT_TRUE(core.HasEvent("job.leaves_place"));
  EXPECT_EQ(core.state.jobs.at(job).phase, JobPhase::kQueued);
  EXPECT_EQ(core.View(job).attempts.size(), 1u);
}

// Its `setup` was left out there: the agent saw that it is another one than at the submit.
TEST_F(InPlace, AnotherDirectoryInItsPlaceIsSeenAndCopiesAreTaken) {
  core.context.snapshot = std::string(64, 'a');
  core.context.snapshot_bytes = 1000;
  JobSpec spec = Gang();
  spec.setup = "make";
  const JobId job = core.Submitted(spec);
  FailAndRelease(core.Run(job));
  core.Ignore();
  const Key second{job, Attempt{2}};
  core.Accept("gpu1", second);
  core.Accept("gpu2", second);
  StagingFacts gone;
  gone.paths = {{.what = "workdir", .path = "/proj", .ok = false, .why = "no such directory"}};
  EXPECT_TRUE(core.Told<to_node::Stage>("gpu1").again);
  EXPECT_TRUE(core.Told<to_node::Stage>("gpu2").again);
  core.Say("gpu1", from_node::Ready{second, core.Digest("gpu1", second), {}});
  core.Say("gpu2", from_node::Ready{second, core.Digest("gpu2", second), gone});
  EXPECT_TRUE(core.HasEvent("attempt.shipping"));
  const auto stage = core.Told<to_node::Stage>("gpu2");
  EXPECT_TRUE(stage.use_snapshot);
  EXPECT_FALSE(stage.again);
}

TEST_F(InPlace, ACancelDuringTheStopFreesWhatIsReleased) {
  const JobId job = core.Submitted(Gang());
  const Key key = core.Run(job);
  Fail(key);
  core.Release("gpu1", key);
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());
  core.Cancel(job);
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
}

TEST_F(InPlace, WithoutRetriesEachNodeIsFreeWhenItIsDone) {
  JobSpec spec = GpuJob(2, 1);
  spec.retry.max = 0;
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  Fail(key);
  core.Release("gpu1", key);
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
}

// Who said that it has no power may err: the rank may be there when the node is back.
TEST_F(InPlace, NotOnANodeThatWasFencedMeanwhile) {
  const JobId job = core.Submitted(Gang());
  const Key first = core.Run(job);
  Fail(first);
  core.Release("gpu1", first);
  core.Detach("gpu2");
  ASSERT_EQ(core.state.jobs.at(job).keeps, 1u);
  core.Post(event::FenceNode{RequestId{901}, {UserName{"op"}, true}, NodeId{"gpu2"}});
  ASSERT_TRUE(core.Answer<reply::Done>(RequestId{901}));
  EXPECT_EQ(core.state.jobs.at(job).keeps, 0u);
}

}  // namespace
}  // namespace launch::controller
