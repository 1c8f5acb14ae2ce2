#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Cancel : testing::Test {
  Cancel() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Ignore();
  }
  TestCore core;
};

TEST_F(Cancel, AQueuedJobIsDoneAtOnce) {
  core.Submitted(GpuJob(2, 1));
  const JobId waiting = core.Submitted(GpuJob(1, 1));
  core.Cancel(waiting);
  EXPECT_EQ(core.View(waiting).state, JobState::kCancelled);
  EXPECT_EQ(core.View(waiting).cancelled_by, "ana");
}

TEST_F(Cancel, AJobWhosePlanIsBeingMadeNeverStarts) {
  core.answer_plans = false;
  const RequestId request = core.Submit(GpuJob(1, 1));
  core.answer_plans = true;
  const auto submit = std::get<effect::PlanWanted>(core.effects.at(0));
  core.Ignore();
  core.answer_plans = false;
  core.Post(core.Answered(submit));
  const JobId job = core.Answer<reply::Submitted>(request)->job;
  const auto placed = std::get<effect::PlanWanted>(core.effects.back());
  EXPECT_EQ(core.View(job).reason.code, "Planning");
  core.effects.pop_back();
  core.Cancel(job);
  core.Post(core.Answered(placed));  // the worker was on it already
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  EXPECT_TRUE(core.state.attempts.empty());
  core.NothingElse();
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
}

TEST_F(Cancel, IsFinalForALateAccepted) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  core.Told<to_node::Prepare>("gpu1");
  core.Cancel(job);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  core.Ignore();
  core.Detach("gpu1");  // the Stop may have been lost with the stream
  from_node::Hello hello;
  hello.allocations = {
      {key, core.Digest("gpu1", key), AllocationPhase::kAccepted, PortBlock{29500, 4}, {}, {}}};
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  core.Accept("gpu1", key);
  EXPECT_FALSE(core.WasTold<to_node::Stage>("gpu1"));
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
}

TEST_F(Cancel, OfARunningJobWaitsForTheProofThatNothingIsLeft) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  EXPECT_EQ(core.View(job).state, JobState::kStopping);
  EXPECT_EQ(core.View(job).held.size(), 2u);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kCancelled);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").cause, StopCause::kCancelled);
  core.Exit("gpu1", key, 0, Signalled{15, false});
  core.Exit("gpu2", key, 1, Signalled{9, false});
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kStopping);
  core.Release("gpu2", key);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  EXPECT_EQ(core.View(job).outcome, "cancelled by ana");
  EXPECT_TRUE(core.View(job).held.empty());
}

// `setup` is the user's program, and it runs before any Go.
struct InSetup : TwoNodes {
  InSetup() {
    JobSpec spec = GpuJob(2, 1);
    spec.setup = "pip install .";
    spec.retry.max = 1;
    key = Accepted(spec);
    core.Told<to_node::Stage>("gpu1");
  }
  bool IsHeld() { return core.View(key.job).held.size() == 2u && core.state.queue.empty(); }
  void Requeue() {
    JobChange change;
    change.action = JobAction::kRequeue;
    core.Post(event::Change{RequestId{900}, {UserName{"ana"}, false}, {key.job}, change});
  }
  Key key;
};

TEST_F(InSetup, ACancelWaitsForTheProofThatNothingIsLeft) {
  core.Cancel(key.job);
  EXPECT_EQ(core.View(key.job).state, JobState::kStopping);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kCancelled);
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(key.job).state, JobState::kStopping);
  core.Release("gpu2", key);
  EXPECT_EQ(core.View(key.job).state, JobState::kCancelled);
  EXPECT_EQ(core.View(key.job).outcome, "cancelled by ana");
  EXPECT_TRUE(core.View(key.job).held.empty());
}

TEST_F(InSetup, ASecondAttemptWaitsForTheProof) {
  Requeue();
  EXPECT_TRUE(IsHeld());
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").cause, StopCause::kPreempted);
  core.Release("gpu1", key);
  EXPECT_EQ(core.state.jobs.at(key.job).attempts, 1u);
  core.Release("gpu2", key);
  EXPECT_EQ(core.state.attempts.at(key).outcome, "preempted");
  EXPECT_EQ(core.state.jobs.at(key.job).attempts, 2u);
}

TEST_F(InSetup, ASilentNodeIsNotReplaced) {
  core.Detach("gpu2");
  core.Pass(Millis{std::chrono::hours(2)});  // beyond every limit of a start
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_EQ(core.state.attempts.at(key).stop_cause, StopCause::kStartFailed);
  core.Release("gpu1", key);
  core.Pass(Millis{std::chrono::hours(2)});
  EXPECT_EQ(core.state.jobs.at(key.job).attempts, 1u);
  from_node::Hello hello;
  hello.allocations = {
      {key, core.Digest("gpu2", key), AllocationPhase::kReady, PortBlock{29500, 4}, {}, {}}};
  core.Attach(MakeInventory("gpu2", 1), hello);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").key, key);
  core.Release("gpu2", key);
  EXPECT_EQ(core.state.attempts.at(key).outcome, "start_failed");
  EXPECT_TRUE(core.state.ranks.empty());  // none was told to start
}

TEST_F(InSetup, ALeaseEndsNoSetup) {
  JobSpec spec = GpuJob(2, 1);
  spec.setup = "pip install .";
  spec.requeue_after = Millis{std::chrono::minutes(1)};
  spec.stop_duration = Millis{10'000};
  core.Cancel(key.job);
  core.Release("gpu1", key);
  core.Release("gpu2", key);
  const JobId job = core.Submitted(spec);
  const Key leased{job, Attempt{1}};
  core.Accept("gpu1", leased);
  core.Accept("gpu2", leased);
  core.Detach("gpu2");
  core.Pass(Millis{std::chrono::hours(2)});
  core.Release("gpu1", leased);
  core.Pass(Millis{std::chrono::hours(2)});
  EXPECT_EQ(core.Phase(leased), AttemptPhase::kStopping);
}

TEST_F(InSetup, AfterARestartOfTheControllerToo) {
  core.Restart();
  core.Cancel(key.job);
  EXPECT_EQ(core.View(key.job).state, JobState::kStopping);
}

TEST_F(Cancel, BeatsTheRetryPolicy) {
  JobSpec spec = GpuJob(2, 1);
  spec.retry.max = 5;
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{1});
  core.Cancel(job);
  core.Release("gpu1", key);
  core.Release("gpu2", key);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  EXPECT_EQ(core.state.jobs.at(job).attempts, 1u);
}

TEST_F(Cancel, LeavesASuccessThatWasThereFirst) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{0});
  core.Post(event::Cancel{RequestId{700}, {UserName{"ana"}, false}, {job}});
  const auto answer = core.Answer<reply::Cancelled>(RequestId{700});
  EXPECT_TRUE(answer->results.at(0).already_done);
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
}

TEST_F(Cancel, IsForTheOwnerAndForOperators) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  core.Post(event::Cancel{RequestId{701}, {UserName{"bob"}, false}, {job}});
  const auto denied = core.Answer<reply::Cancelled>(RequestId{701});
  ASSERT_TRUE(denied->results.at(0).error.has_value());
  EXPECT_EQ(denied->results.at(0).error->code, ErrorCode::kPermissionDenied);
  core.Post(event::Cancel{RequestId{702}, {UserName{"root"}, true}, {job, JobId{99}}});
  const auto allowed = core.Answer<reply::Cancelled>(RequestId{702});
  EXPECT_FALSE(allowed->results.at(0).error.has_value());
  EXPECT_EQ(allowed->results.at(1).error->code, ErrorCode::kNotFound);
  EXPECT_EQ(core.View(job).cancelled_by, "root");
}

}  // namespace
}  // namespace launch::controller
