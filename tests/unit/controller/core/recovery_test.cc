// From the cause of an end to what is done about it.
#include "controller/core/recovery.h"

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Recovering : testing::Test {
  Recovering() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Ignore();
  }
  void Say(const std::string& label, const std::string& action,
           Confidence confidence = Confidence::kLikely) {
    core.verdict = Verdict{};
    core.verdict->label = label;
    core.verdict->action = action;
    core.verdict->confidence = confidence;
  }
  JobId Submit(RetrySpec retry = {}, const std::string& checkpoint = "") {
    JobSpec spec = GpuJob(1, 1);
    spec.run = "python train.py --micro $LAUNCH_MICRO_BATCH --accum $LAUNCH_GRAD_ACCUM";
    spec.retry = std::move(retry);
    spec.checkpoint.dir = checkpoint;
    return core.Submitted(spec);
  }
  static RetrySpec Max(int max) {
    RetrySpec retry;
    retry.max = max;
    return retry;
  }
  std::string NodeOf(JobId job) { return core.View(job).attempts.back().nodes.at(0).value; }
  static StagingFacts FactsOf(std::int64_t saved) {
    StagingFacts facts;
    if (saved >= 0) facts.checkpoints.push_back(Found(saved));
    return facts;
  }
  static CheckpointFound Found(std::int64_t step) {
    CheckpointFound found;
    found.path = "/ckpt/step" + std::to_string(step);
    found.step = step;
    found.complete = true;
    return found;
  }
  // `saved`: the step of the newest checkpoint that this attempt finds.
  std::string Fail(JobId job, int code = 1, std::int64_t saved = -1) {
    core.Ignore();
    const std::string node = NodeOf(job);
    const Key key{job, Attempt{core.state.jobs.at(job).attempts}};
    core.Accept(node, key);
    core.Ready(node, key, FactsOf(saved));
    core.Start(node, key);
    core.Exit(node, key, 0, Exited{code});
    core.Release(node, key);
    core.Ignore();
    return node;
  }
  void Wait(Millis time) {
    core.now.boot += time;
    core.now.wall += time;
    for (const char* node : {"gpu1", "gpu2"}) core.Beat(node);
    core.Pass(Millis{0});
  }
  std::uint32_t Attempts(JobId job) { return core.state.jobs.at(job).attempts; }
  TestCore core;
};

TEST_F(Recovering, AUsersErrorIsNeverTriedAgainAndTheOutcomeSaysWhy) {
  Say("python_import", "no_retry");
  const JobId job = Submit(Max(3));
  Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(Attempts(job), 1u);
  EXPECT_NE(core.View(job).outcome.find("python_import ends the same way"), std::string::npos);
}

TEST_F(Recovering, AnExitCodeThatTheJobNamesIsTriedAgainWhateverTheVerdict) {
  Say("python_exception", "no_retry");
  RetrySpec retry = Max(1);
  retry.recover_on_exit_codes = {33};
  const JobId job = Submit(retry);
  Fail(job, 33);
  EXPECT_EQ(Attempts(job), 2u);
}

TEST_F(Recovering, ABrokenGpuMovesTheJobToAnotherNode) {
  Say("ecc", "retry_elsewhere", Confidence::kConfirmed);
  const JobId job = Submit();
  const std::string first = Fail(job);
  EXPECT_EQ(Attempts(job), 2u);
  EXPECT_NE(NodeOf(job), first);
  EXPECT_TRUE(core.HasEvent("job.avoids_node"));
  EXPECT_EQ(core.state.jobs.at(job).excluded_nodes.at(first), "ecc");
}

TEST_F(Recovering, RetryMaxZeroForbidsEverything) {
  Say("ecc", "retry_elsewhere", Confidence::kConfirmed);
  const JobId job = Submit(Max(0));
  Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
}

TEST_F(Recovering, NamingOtherEventsForbidsIt) {
  Say("ecc", "retry_elsewhere", Confidence::kConfirmed);
  RetrySpec retry;
  retry.on_events = {"preempted"};
  const JobId job = Submit(retry);
  Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
}

TEST_F(Recovering, AForeignProcessIsGivenTimeToLeave) {
  Say("cuda_oom_foreign_process", "retry_elsewhere");
  const JobId job = Submit();
  const std::string first = Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  Wait(Millis{29'000});
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  Wait(Millis{2'000});
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  EXPECT_NE(NodeOf(job), first);
}

TEST_F(Recovering, ACollectiveThatTimedOutIsTriedOnceMore) {
  Say("nccl_timeout", "retry_same", Confidence::kSymptom);
  const JobId job = Submit();
  Fail(job);
  EXPECT_EQ(Attempts(job), 2u);
  Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(Attempts(job), 2u);
}

TEST_F(Recovering, AnUnknownCauseIsTriedAgainOnlyWhereTheJobAsks) {
  Say("unknown", "retry_same", Confidence::kUnknown);
  const JobId job = Submit();
  Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  const JobId asks = Submit(Max(1));
  Fail(asks);
  EXPECT_EQ(Attempts(asks), 2u);
}

TEST_F(Recovering, AnEndFromOutsideNeedsACheckpointAndWaitsBeforeItGoesOn) {
  Say("preempted_signal", "resume");
  const JobId without = Submit();
  Fail(without);
  EXPECT_EQ(core.View(without).state, JobState::kFailed);
  const JobId job = Submit({}, "/ckpt");
  Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kRequeued) << "not at once";
  Wait(Millis{3'000});
  EXPECT_EQ(Attempts(job), 2u);
  EXPECT_EQ(RetriesUsed(core.state.jobs.at(job), Budget::kInfrastructure), 1);
  Fail(job);  // it may have saved something: the next start tells
  Wait(Millis{5'000});
  EXPECT_EQ(Attempts(job), 3u);
}

// A stray line of the log, or a program that sends itself SIGTERM, must not run for ever.
TEST_F(Recovering, AnEndFromOutsideCostsARetryEvenWhereEachAttemptSavesANewerCheckpoint) {
  Say("preempted_signal", "resume", Confidence::kConfirmed);
  const JobId job = Submit({}, "/ckpt");
  for (int step = 1; step <= 2; ++step) {
    Fail(job, 1, step);
    Wait(Millis{5'000});
    EXPECT_EQ(Attempts(job), static_cast<std::uint32_t>(step + 1));
  }
  Fail(job, 1, 3);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_NE(core.View(job).outcome.find("2 of 2 retries used"), std::string::npos)
      << core.View(job).outcome;
  const JobId once = Submit(Max(1), "/other");
  Fail(once, 1, 1);
  Wait(Millis{5'000});
  Fail(once, 1, 2);
  EXPECT_EQ(core.View(once).state, JobState::kFailed);
  EXPECT_EQ(Attempts(once), 2u) << "retry.max is the limit";
}

TEST_F(Recovering, RetriesOfTheProgramAndOfTheInfrastructureAreCountedApart) {
  Say("hang", "retry_same");
  RetrySpec retry;
  retry.recover_on_exit_codes = {75};
  const JobId job = Submit(retry);
  for (const int code : {75, 75, 1, 1}) Fail(job, code);
  EXPECT_EQ(Attempts(job), 5u);
  const JobRecord& record = core.state.jobs.at(job);
  EXPECT_EQ(RetriesUsed(record, Budget::kProgram), 2);
  EXPECT_EQ(RetriesUsed(record, Budget::kInfrastructure), 2);
  Fail(job, 75);
  EXPECT_NE(core.View(job).outcome.find("2 of 2 retries used"), std::string::npos);
  const JobId other = Submit(retry);
  for (const int code : {1, 1, 75, 1}) Fail(other, code);
  EXPECT_EQ(core.View(other).state, JobState::kFailed);
  EXPECT_NE(core.View(other).outcome.find("2 of 2 retries used for the infrastructure"),
            std::string::npos)
      << core.View(other).outcome;
}

TEST_F(Recovering, ANewerCheckpointRefillsTheRetriesOfTheInfrastructureOnly) {
  Say("hang", "retry_same");
  const JobId job = Submit({}, "/ckpt");
  for (int step = 1; step <= 6; ++step) Fail(job, 1, step);
  EXPECT_EQ(Attempts(job), 7u);
  for (int i = 0; i < 3; ++i) Fail(job, 1, 6);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_NE(core.View(job).outcome.find("for the infrastructure since its newest checkpoint"),
            std::string::npos)
      << core.View(job).outcome;
  Say("unknown", "retry_same", Confidence::kUnknown);
  const JobId program = Submit(Max(2), "/other");
  for (int step = 1; step <= 3; ++step) Fail(program, 1, step);
  EXPECT_EQ(core.View(program).state, JobState::kFailed);
}

// Weeks after the last retry: what this attempt saved only the next start sees.
TEST_F(Recovering, ALongAttemptMayShowANewerCheckpointBeyondTheBudget) {
  Say("hang", "retry_same");
  const auto run_long = [&](JobId job, std::int64_t saved) {
    core.Ignore();
    const std::string node = NodeOf(job);
    const Key key{job, Attempt{core.state.jobs.at(job).attempts}};
    core.Accept(node, key);
    core.Ready(node, key, FactsOf(saved));
    core.Start(node, key);
    Wait(Millis{120'000});
    core.Exit(node, key, 0, Exited{1});
    core.Release(node, key);
    core.Ignore();
  };
  const JobId job = Submit({}, "/ckpt");
  for (int i = 0; i < 2; ++i) Fail(job);
  run_long(job, -1);
  EXPECT_EQ(Attempts(job), 4u);
  run_long(job, 100);
  EXPECT_EQ(Attempts(job), 5u) << "the checkpoint of step 100 was new";
  EXPECT_EQ(RetriesUsed(core.state.jobs.at(job), Budget::kInfrastructure), 1);
  Fail(job, 1, 100);
  run_long(job, 100);
  EXPECT_EQ(Attempts(job), 7u);
  const std::string node = NodeOf(job);
  const Key key{job, Attempt{7}};
  core.Accept(node, key);
  core.Ready(node, key, FactsOf(100));
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_NE(core.View(job).outcome.find(
                "3 retries used for the infrastructure, the last without a newer checkpoint"),
            std::string::npos)
      << core.View(job).outcome;
}

struct OutOfMemoryRecovery : Recovering {
  OutOfMemoryRecovery() {
    Say("cuda_oom", "retry_with_change");
    core.plan_batch = BatchSplit{16, 16, 1};
  }
  std::optional<std::int64_t> Micro(JobId job) {
    return core.View(job).attempts.back().batch.micro;
  }
};

TEST_F(OutOfMemoryRecovery, ChangesThePlanThreeTimesAtMostAndNeverBack) {
  const JobId job = Submit();
  for (const std::int64_t micro : {16, 8, 4, 2}) {
    EXPECT_EQ(Micro(job), micro);
    EXPECT_EQ(core.View(job).attempts.back().batch.global, 16);
    Fail(job);
  }
  EXPECT_EQ(Attempts(job), 4u);
  EXPECT_EQ(core.View(job).state, JobState::kOutOfMemory);
  EXPECT_NE(core.View(job).outcome.find("3 plans of less memory were tried"), std::string::npos);
  EXPECT_NE(core.View(job).attempts[1].change.find("micro-batch 16 -> 8"), std::string::npos);
  EXPECT_EQ(core.View(job).attempts[0].change, "");
  EXPECT_TRUE(core.HasEvent("job.plan_changed"));
}

TEST_F(OutOfMemoryRecovery, RemembersItsChangesOverARestart) {
  const JobId job = Submit();
  Fail(job);
  core.Restart();
  for (const char* node : {"gpu1", "gpu2"}) core.Attach(node, 1);
  Wait(Millis{60'000});  // the attempt that was being prepared is given up
  EXPECT_EQ(core.state.jobs.at(job).change.micro, 8);
}

TEST_F(OutOfMemoryRecovery, IsNotBoundByTheRetriesOfTheJobNorByProgress) {
  const JobId job = Submit(Max(1), "/ckpt");
  for (int i = 0; i < 3; ++i) Fail(job);
  EXPECT_EQ(Attempts(job), 4u);
  EXPECT_EQ(RetriesUsed(core.state.jobs.at(job), Budget::kInfrastructure), 0);
}

TEST_F(OutOfMemoryRecovery, StopsWhenTheJobSaysFail) {
  JobSpec spec = GpuJob(1, 1);
  spec.on_oom = OnOom::kFail;
  const JobId job = core.Submitted(spec);
  Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kOutOfMemory);
  EXPECT_NE(core.View(job).outcome.find("on_oom: fail"), std::string::npos);
}

TEST_F(OutOfMemoryRecovery, AfterHostMemoryRanOutTheLoaderGetsFewerWorkers) {
  Say("dataloader_worker_killed", "retry_with_change", Confidence::kConfirmed);
  core.plan_loader = LoaderPlan{4, true, true};
  JobSpec spec = GpuJob(1, 1);
  spec.run = "python train.py --workers $LAUNCH_NUM_WORKERS";
  const JobId job = core.Submitted(spec);
  Fail(job);
  EXPECT_EQ(Attempts(job), 2u);
  EXPECT_TRUE(core.state.jobs.at(job).change.fewer_workers);
  Fail(job);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_NE(core.View(job).outcome.find("fewer data loader workers already"), std::string::npos);
}

}  // namespace
}  // namespace launch::controller
