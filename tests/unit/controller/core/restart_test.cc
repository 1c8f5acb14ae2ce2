// The controller is killed in every phase; from its records it goes on where it was.
#include <algorithm>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Restart : testing::Test {
  Restart() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Ignore();
  }
  void Back(const std::string& node, Key key, AllocationPhase phase) {
    from_node::Hello hello;
    AllocationStatus status{key, core.Digest(node, key), phase, {}, {}, {}};
    if (node == "gpu1") status.ports = PortBlock{29500, 4};
    hello.allocations = {status};
    core.Attach(MakeInventory(node, 1), hello);
  }
  TestCore core;
};

TEST_F(Restart, OpensANewEpochAndKeepsTheQueue) {
  const JobId running = core.Submitted(GpuJob(2, 1));
  const JobId waiting = core.Submitted(GpuJob(1, 1));
  const std::uint64_t epoch = core.state.cluster.epoch;
  core.Restart();
  EXPECT_EQ(core.state.cluster.epoch, epoch + 1);
  EXPECT_EQ(core.View(waiting).state, JobState::kPending);
  EXPECT_EQ(core.View(waiting).reason.code, "ReqNodeNotAvail");
  EXPECT_EQ(core.View(running).state, JobState::kStarting);
  EXPECT_EQ(core.Node("gpu1").state, "unknown");
}

TEST_F(Restart, WhilePreparingPreparesAgain) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  core.Accept("gpu1", key);
  core.Restart();
  Back("gpu1", key, AllocationPhase::kAccepted);
  core.Attach("gpu2", 1);
  EXPECT_EQ(core.Run(job), key);
}

TEST_F(Restart, WhileStagingStagesAgain) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  core.Accept("gpu1", key);
  core.Accept("gpu2", key);
  core.Ready("gpu1", key);
  core.Restart();
  Back("gpu1", key, AllocationPhase::kReady);
  Back("gpu2", key, AllocationPhase::kAccepted);
  EXPECT_EQ(core.Run(job), key);
}

TEST_F(Restart, WhileLaunchingSaysGoAgainWithTheSameMaster) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  core.Accept("gpu1", key);
  core.Accept("gpu2", key);
  core.Ready("gpu1", key);
  core.Ready("gpu2", key);
  const auto before = core.Told<to_node::Go>("gpu2");
  core.Restart();
  Back("gpu1", key, AllocationPhase::kStarted);
  Back("gpu2", key, AllocationPhase::kReady);
  EXPECT_EQ(core.Told<to_node::Go>("gpu2"), before);
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
  core.Start("gpu2", key);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
}

TEST_F(Restart, WhileRunningTouchesNothing) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Restart();
  EXPECT_EQ(core.View(job).state, JobState::kUnreachable);
  Back("gpu1", key, AllocationPhase::kStarted);
  Back("gpu2", key, AllocationPhase::kStarted);
  EXPECT_EQ(core.View(job).state, JobState::kRunning);
  core.NothingElse();
}

TEST_F(Restart, WhileStoppingStopsAgain) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  core.Release("gpu1", key);
  core.Restart();
  core.Attach("gpu1", 1);
  Back("gpu2", key, AllocationPhase::kStarted);
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").key, key);
  core.Release("gpu2", key);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
}

TEST_F(Restart, KeepsWhatIsLeftOfATimeLimit) {
  JobSpec spec = GpuJob(2, 1);
  spec.time_limit = Millis{100'000};
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  core.now.wall += Millis{40'000};
  core.now.boot = BootMs(0);  // the host was rebooted, too
  core.Restart();
  core.Pass(Millis{59'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  core.Pass(Millis{1'100});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
}

TEST_F(Restart, ATimeLimitDoesNotFollowAWallClockThatJumps) {
  core.host_boot = "boot-1";
  core.Restart();
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  JobSpec spec = GpuJob(2, 1);
  spec.time_limit = Millis{100'000};
  const Key key = core.Run(core.Submitted(spec));
  core.now.wall += Millis{3'600'000};
  core.Restart();
  core.Pass(Millis{99'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  core.Pass(Millis{1'100});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
}

TEST_F(Restart, ATimeLimitAsksTheWallClockOnceForEachBootOfTheHost) {
  core.host_boot = "boot-1";
  core.Restart();
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  JobSpec spec = GpuJob(2, 1);
  spec.time_limit = Millis{100'000};
  const Key key = core.Run(core.Submitted(spec));
  core.now.wall += Millis{40'000};
  core.now.boot = BootMs(5'000);  // less than the attempt ran
  core.host_boot = "boot-2";
  core.Restart();
  core.now.wall += Millis{3'600'000};
  core.Restart();
  core.Pass(Millis{59'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  core.Pass(Millis{1'100});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
}

// What is stored, and a start with plans that nobody can read.
Result<Decision> StartWithoutPlans(TestCore& core) {
  State broken;
  const State& whole = core.state;
  Apply(broken, Put{whole.cluster});
  for (const auto& [id, record] : whole.jobs) Apply(broken, Put{record});
  for (const auto& [id, record] : whole.specs) Apply(broken, Put{record});
  for (const auto& [key, record] : whole.attempts) Apply(broken, Put{record});
  for (const auto& [key, allocs] : whole.allocs) {
    for (const auto& [node, record] : allocs) Apply(broken, Put{record});
  }
  auto started = controller::Start(
      broken,
      [](std::string_view, const std::string&) -> Result<StoredPlan> { return StoredPlan{}; }, "x",
      core.now);
  core.state = std::move(broken);
  return started;
}

TEST_F(Restart, AnUnreadablePlanFailsTheStartOfItsAttemptOnly) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  const auto started = StartWithoutPlans(core);
  ASSERT_TRUE(started.has_value()) << started.error().message;
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded);
  EXPECT_NE(core.state.attempts.at(key).cause.find("plan cannot be read"), std::string::npos);
  EXPECT_EQ(core.state.gpu_owner.size(), 2u) << "held until both nodes say that nothing is left";
  EXPECT_TRUE(std::ranges::any_of(started->records, [](const Record& record) {
    const auto* row = std::get_if<EventRow>(&record);
    return row != nullptr && row->kind == "attempt.plan_unreadable";
  }));
}

TEST_F(Restart, AnUnreadablePlanDoesNotStopWhatRuns) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  ASSERT_TRUE(StartWithoutPlans(core).has_value());
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  EXPECT_EQ(core.state.gpu_owner.size(), 2u);
  for (const std::string& violation : CheckInvariants(core.state)) ADD_FAILURE() << violation;
}

TEST_F(Restart, ChunksOfAPlanThatWasNeverCommittedAreNotReadAndGo) {
  const Key key{JobId{1}, Attempt{1}};
  Apply(core.state, Put{PlanChunkRecord{key, 1, "left by a crash"}});
  Apply(core.state, Put{PlanChunkRecord{key, 7, "left by a crash"}});
  const JobId job = core.Submitted(GpuJob(2, 1));
  ASSERT_EQ(job, key.job);
  EXPECT_EQ(core.state.plan_chunks.at(key).size(), core.state.attempts.at(key).plan_chunks);
  core.Restart();
  EXPECT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  // Those that a refused batch left are in the store only.
  core.Keep(PlanChunkRecord{key, 3, "left by a refused batch"});
  core.Restart();
  EXPECT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  EXPECT_TRUE(core.state.plans.contains(key));
}

TEST_F(Restart, FromAStoreThatMayHaveGoneBackUsesNoNumberTwice) {
  core.Submitted(GpuJob(2, 1));
  State restored;
  Apply(restored, Put{core.state.cluster});
  const std::uint64_t next = core.state.cluster.next_job;
  const auto decode = [](std::string_view, const std::string&) -> Result<StoredPlan> {
    return StoredPlan{};
  };
  ASSERT_TRUE(controller::Start(restored, decode, "x", core.now, true).has_value());
  EXPECT_EQ(restored.cluster.incarnation, core.state.cluster.incarnation + 1);
  EXPECT_EQ(restored.cluster.next_job, next + 10'000);
}

TEST_F(Restart, FromAStoreThatMayHaveGoneBackStartsNothingAgain) {
  const Key running = core.Run(core.Submitted(GpuJob(2, 1)));
  const JobId waiting = core.Submitted(GpuJob(2, 1));
  const auto decode = [&](std::string_view, const std::string&) -> Result<StoredPlan> {
    return *core.state.plans.begin()->second;
  };
  State restored = core.state;
  ASSERT_TRUE(controller::Start(restored, decode, "x", core.now, true).has_value());
  EXPECT_TRUE(restored.jobs.at(waiting).held);
  EXPECT_EQ(restored.jobs.at(waiting).held_by, "restore");
  EXPECT_TRUE(restored.jobs.at(running.job).held) << "if its node does not have it, it waits";
  EXPECT_EQ(restored.attempts.at(running).phase, AttemptPhase::kRunning);
  State same = core.state;
  ASSERT_TRUE(controller::Start(same, decode, "x", core.now, false).has_value());
  EXPECT_FALSE(same.jobs.at(waiting).held);
}

TEST_F(Restart, WhatARestoreHoldsIsNotReleasedBesideANodeThatSaidNothingSince) {
  JobRecord job = core.state.jobs.at(core.Submitted(GpuJob(2, 1)));
  job.held = true;
  job.held_by = "restore";
  core.Keep(job);
  core.Restart();
  const auto change = [&](JobAction action) {
    JobChange wanted;
    wanted.action = action;
    core.Post(event::Change{RequestId{9'001}, {core.user, false}, {job.id}, wanted});
    return core.Answer<reply::Changed>(RequestId{9'001})->results.front();
  };
  core.Pass(Millis{60'000});
  const auto refused = change(JobAction::kRelease);
  ASSERT_TRUE(refused.error);
  EXPECT_NE(refused.error->hint.find("launch node fence gpu"), std::string::npos);
  EXPECT_TRUE(core.state.jobs.at(job.id).held);
  for (const auto& [node, record] : std::map(core.state.nodes)) core.Attach(node.value, 1);
  EXPECT_FALSE(change(JobAction::kRelease).error);
  EXPECT_FALSE(core.state.jobs.at(job.id).held);
}

TEST_F(Restart, FromAStoreThatMayHaveGoneBackDoesNotGoOnWithAStart) {
  const Key key{core.Submitted(GpuJob(2, 1)), Attempt{1}};
  ASSERT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  const auto decode = [&](std::string_view, const std::string&) -> Result<StoredPlan> {
    return *core.state.plans.at(key);
  };
  State restored = core.state;
  ASSERT_TRUE(controller::Start(restored, decode, "x", core.now, true).has_value());
  EXPECT_EQ(restored.attempts.at(key).phase, AttemptPhase::kStopping)
      << "what began since the backup is gone when its nodes say so";
  EXPECT_TRUE(restored.jobs.at(key.job).held);
}

TEST_F(Restart, FromAStoreThatMayHaveGoneBackProvesTheEndOfWhatWasRequeuedBefore) {
  const Key key{core.Submitted(GpuJob(2, 1)), Attempt{1}};
  const auto decode = [&](std::string_view, const std::string&) -> Result<StoredPlan> {
    return *core.state.plans.at(key);
  };
  State restored = core.state;
  restored.jobs.at(key.job).requeued_by = "ana";
  ASSERT_TRUE(controller::Start(restored, decode, "x", core.now, true).has_value());
  EXPECT_EQ(restored.attempts.at(key).phase, AttemptPhase::kStopping);
  EXPECT_EQ(restored.attempts.at(key).cause, "requeued by ana");
}

TEST_F(Restart, AUserOfTheNameOfARestoreIsNone) {
  core.user = UserName{"restore"};
  const Key key{core.Submitted(GpuJob(2, 1)), Attempt{1}};
  ASSERT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  JobChange change;
  change.action = JobAction::kRequeue;
  core.Post(event::Change{RequestId{9'001}, {core.user, false}, {key.job}, change});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded) << "nothing of it can have begun";
}

}  // namespace
}  // namespace launch::controller
