// `time` is the longest run: whoever wants a signal gets it before, as with Slurm's --signal.
#include "controller/core/draft.h"
#include "controller/core/stop_verdict.h"
#include "planner/planner.h"
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct TimeLimit : testing::Test {
  TimeLimit() {
    core.Attach("gpu1", 1);
    core.Ignore();
    JobSpec spec = GpuJob(1, 1);
    spec.time_limit = Millis{60'000};
    spec.checkpoint.signal = 10;
    spec.checkpoint.signal_before = Millis{20'000};
    key = core.Run(core.Submitted(spec));
  }
  void Wait(Millis time) {
    for (; time > Millis{0}; time -= Millis{1'000}) {
      core.now.boot += Millis{1'000};
      core.now.wall += Millis{1'000};
      core.Beat("gpu1");
      core.Pass(Millis{0});
    }
  }
  // The rank ends, and had been sent these.
  void End(int code, std::vector<int> signals) {
    ExitReport report;
    report.key = key;
    report.boot_id = core.boot.at("gpu1");
    report.cause = Exited{code};
    for (const int signal : signals)
      report.our_signals.push_back({signal, BootMs(1), "time_limit"});
    core.Say("gpu1", from_node::RankExited{report});
    core.Release("gpu1", key);
  }
  TestCore core;
  Key key;
};

TEST_F(TimeLimit, TheStopBeginsSoMuchBeforeItThatTermComesAtTheLimit) {
  Wait(Millis{39'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  Wait(Millis{1'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kTimeLimit);
  End(143, {10, 15});
  EXPECT_EQ(core.View(key.job).state, JobState::kTimeout);
  EXPECT_EQ(core.View(key.job).outcome,
            "the time limit of 1m was reached; signal 10 was sent 20 s before it");
}

TEST_F(TimeLimit, ACancelDoesNotWaitForTheLimitWhoseSignalWasSent) {
  Wait(Millis{40'000});
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kTimeLimit);
  core.Cancel(key.job);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kCancelled);
  End(143, {10, 15});
  EXPECT_EQ(core.View(key.job).state, JobState::kCancelled);
}

TEST_F(TimeLimit, TheVerdictSaysHowToGetMoreTime) {
  Wait(Millis{40'000});
  End(143, {10, 15});
  ASSERT_TRUE(core.state.attempts.at(key).verdict);
  const Verdict& verdict = *core.state.attempts.at(key).verdict;
  EXPECT_EQ(verdict.label, "time_limit");
  EXPECT_EQ(verdict.cause, "The time limit of 1m was reached");
  EXPECT_EQ(verdict.action, "retry_with_change");
  const std::string id = std::to_string(key.job.value);
  EXPECT_NE(verdict.remedy.find("launch update " + id + " time=2m"), std::string::npos);
  EXPECT_EQ(verdict.remedy.find("checkpoint"), std::string::npos);
}

TEST(StopVerdict, GoesOnFromACheckpointWhereTheJobHasOne) {
  JobSpec spec;
  spec.time_limit = Millis{3'600'000};
  spec.checkpoint.dir = "/ckpt";
  AttemptRecord attempt;
  attempt.key = {JobId{7}, Attempt{1}};
  attempt.stop_cause = StopCause::kTimeLimit;
  const auto verdict = VerdictOfStop(spec, attempt);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->action, "resume");
  EXPECT_NE(verdict->remedy.find("checkpoint in /ckpt"), std::string::npos);
}

TEST(StopVerdict, OfARequeueHasNoRemedy) {
  AttemptRecord attempt;
  attempt.stop_cause = StopCause::kPreempted;
  const auto verdict = VerdictOfStop(JobSpec{}, attempt);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->remedy, "");
}

TEST_F(TimeLimit, WhatEndsBetweenTheSignalAndTheLimitIsDone) {
  Wait(Millis{40'000});
  ASSERT_EQ(core.Phase(key), AttemptPhase::kStopping);
  End(0, {10});
  EXPECT_EQ(core.View(key.job).state, JobState::kSucceeded);
}

TEST_F(TimeLimit, AGoodEndAfterTermIsOneAtTheLimit) {
  Wait(Millis{40'000});
  End(0, {10, 15});
  EXPECT_EQ(core.View(key.job).state, JobState::kTimeout);
}

TEST_F(TimeLimit, ANewOneBelowTheSignalsLeadOrAfterItIsRefused) {
  const auto update = [&](std::int64_t ms) {
    JobChange change;
    change.action = JobAction::kUpdate;
    change.time_limit = Millis{ms};
    core.Post(event::Change{RequestId{700}, {UserName{"ana"}, false}, {key.job}, change});
    const auto answer = core.Answer<reply::Changed>(RequestId{700});
    return answer ? answer->results.at(0) : reply::ChangeResult{};
  };
  ASSERT_TRUE(update(20'000).error);
  EXPECT_NE(update(20'000).error->message.find("checkpoint.signal"), std::string::npos);
  EXPECT_EQ(core.state.specs.at(key.job).spec.time_limit, Millis{60'000});
  const reply::ChangeResult changed = update(50'000);
  EXPECT_FALSE(changed.error);
  EXPECT_EQ(changed.says, "time limit 0:50");
  Wait(Millis{30'000});
  ASSERT_EQ(core.Phase(key), AttemptPhase::kStopping);
  ASSERT_TRUE(update(7'200'000).error);
  EXPECT_EQ(update(7'200'000).error->hint, "it is being stopped for its time limit");
  EXPECT_EQ(core.state.specs.at(key.job).spec.time_limit, Millis{50'000});
}

TEST_F(TimeLimit, AnAcceptedJobWithALongerLeadHasItsSignalAtItsStart) {
  SpecRecord record = core.state.specs.at(key.job);
  record.spec.checkpoint.signal_before = Millis{90'000};
  EXPECT_EQ(SignalLead(record.spec), Millis{60'000});
  EXPECT_TRUE(
      CheckSpec(record.spec, record.context, ReadLineOf(record.spec, record.context.files)));
}

TEST_F(TimeLimit, IsTheSameAfterARestartOfTheController) {
  Wait(Millis{10'000});
  core.host_boot = core.state.live.host_boot;
  core.Restart();
  from_node::Hello hello;
  AllocationStatus status;
  status.key = key;
  status.digest = core.Digest("gpu1", key);
  status.phase = AllocationPhase::kStarted;
  hello.allocations = {status};
  core.Attach(MakeInventory("gpu1", 1), hello);
  Wait(Millis{29'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  Wait(Millis{1'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
}

}  // namespace
}  // namespace launch::controller
