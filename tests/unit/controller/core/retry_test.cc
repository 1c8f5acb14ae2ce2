#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Retry : testing::Test {
  Retry() {
    core.Attach("gpu1", 1);
    core.Ignore();
  }
  JobId Submit(RetrySpec retry, const std::string& checkpoint = "") {
    JobSpec spec = GpuJob(1, 1);
    spec.retry = std::move(retry);
    spec.checkpoint.dir = checkpoint;
    return core.Submitted(spec);
  }
  // Runs the newest attempt and ends it like this.
  Key RunAndEnd(JobId job, ExitCause cause) {
    const Key key = core.Run(job);
    core.Exit("gpu1", key, 0, std::move(cause));
    core.Ignore();
    core.Release("gpu1", key);
    return key;
  }
  TestCore core;
};

TEST_F(Retry, IsNotTheDefaultForTheUsersOwnError) {
  const JobId job = Submit({});
  RunAndEnd(job, Exited{1});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).exit_code, 1);
}

TEST_F(Retry, RecoversOnTheNamedExitCodesOnly) {
  RetrySpec retry;
  retry.max = 1;
  retry.recover_on_exit_codes = {33};
  const JobId job = Submit(retry);
  const Key first{job, Attempt{1}};
  const Key key = core.Run(job);
  EXPECT_EQ(key, first);
  core.Exit("gpu1", key, 0, Exited{33});
  core.Ignore();
  core.Release("gpu1", key);
  // The GPU is free again, so the second attempt is on its way already.
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  EXPECT_EQ(core.state.jobs.at(job).attempts, 2u);
  RunAndEnd(job, Exited{0});
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
  EXPECT_EQ(core.View(job).attempts.size(), 2u);

  const JobId other = Submit(retry);
  RunAndEnd(other, Exited{34});
  EXPECT_EQ(core.View(other).state, JobState::kFailed);
}

TEST_F(Retry, EndsWithTheFirstFailingCodeWhenAllAreUsed) {
  RetrySpec retry;
  retry.max = 1;
  retry.recover_on_exit_codes = {33};
  const JobId job = Submit(retry);
  RunAndEnd(job, Exited{33});
  RunAndEnd(job, Exited{33});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).exit_code, 33);
  EXPECT_NE(core.View(job).outcome.find("1 of 1 retries"), std::string::npos);
}

TEST_F(Retry, MaxAloneMeansEveryFailure) {
  RetrySpec retry;
  retry.max = 1;
  const JobId job = Submit(retry);
  RunAndEnd(job, Signalled{11, true});
  EXPECT_EQ(core.state.jobs.at(job).attempts, 2u);
}

TEST_F(Retry, TriesTwiceAgainAfterAFaultOfTheInfrastructure) {
  const JobId job = Submit({});
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_EQ(core.state.jobs.at(job).attempts, attempt);
    RunAndEnd(job, FailedToStart{"agent_restarted", 0, "agent restarted"});
    core.Beat("gpu1");
    if (attempt <= 2) {
      EXPECT_EQ(core.View(job).state, JobState::kRequeued);
      EXPECT_EQ(core.View(job).reason.code, "BeginTime");
      core.now.boot += Millis{5'000};
      core.Beat("gpu1");
      core.Pass(Millis{0});
    }
  }
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).attempts.size(), 3u);
}

TEST_F(Retry, WaitsForItsBackoffAndLetsOthersPass) {
  RetrySpec retry;
  retry.max = 1;
  retry.backoff = Millis{2'000};
  const JobId job = Submit(retry);
  const JobId behind = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(behind).reason.code, "Resources");
  RunAndEnd(job, Exited{1});
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  EXPECT_EQ(core.View(behind).state, JobState::kStarting);
  EXPECT_EQ(NextDeadline(core.state), core.now.boot + Millis{2'000});
}

TEST_F(Retry, StopsWhenNothingIsGainedAnyMore) {
  RetrySpec retry;
  retry.max = 10;
  retry.no_progress_max = 2;
  const JobId job = Submit(retry, "out");
  RunAndEnd(job, Exited{1});  // no checkpoint at the first start: no news
  RunAndEnd(job, Exited{1});  // none at the second: one retry without gain
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  RunAndEnd(job, Exited{1});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).sub_reason, "CHECKPOINT");
}

TEST_F(Retry, SaysThatMemoryWasShort) {
  const JobId job = Submit({});
  RunAndEnd(job, OutOfMemory{"rank", 8ULL << 30, 8ULL << 30});
  EXPECT_EQ(core.View(job).state, JobState::kOutOfMemory);
}

TEST_F(Retry, GoesBeyondTheHighestAttemptThatANodeReports) {
  from_node::Hello hello;
  hello.floors = {Key{JobId{1}, Attempt{6}}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  core.Ignore();
  const JobId job = Submit({});
  EXPECT_EQ(core.state.jobs.at(job).attempts, 7u);
}

}  // namespace
}  // namespace launch::controller
