// The controller is killed in every phase; from its records it goes on where it was.
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

TEST_F(Restart, RefusesToServeWithAPlanThatIsNotWhole) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  State broken;
  for (const auto& [id, record] : core.state.jobs) Apply(broken, Put{record});
  for (const auto& [id, record] : core.state.specs) Apply(broken, Put{record});
  for (const auto& [key, record] : core.state.attempts) Apply(broken, Put{record});
  const auto started = controller::Start(
      broken, [](std::string_view) -> Result<StoredPlan> { return StoredPlan{}; }, "x", core.now);
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(started.error().message.find(ToString(Key{job, Attempt{1}})), std::string::npos);
}

}  // namespace
}  // namespace launch::controller
