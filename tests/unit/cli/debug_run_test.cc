#include "cli/debug_run.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

namespace launch {
namespace {

TEST(DebugRun, HasNoRetryAndALimit) {
  JobSpec spec;
  spec.retry.max = 3;
  spec.retry.recover_on_exit_codes = {33};
  spec.time_limit = Millis(24 * 3'600'000);
  const JobSpec debug = AsDebugRun(spec);
  EXPECT_TRUE(debug.debug);
  EXPECT_EQ(debug.retry.max, 0);
  EXPECT_TRUE(debug.retry.recover_on_exit_codes.empty());
  EXPECT_EQ(debug.time_limit, kDebugLimit);
  spec.time_limit = Millis(1'000);
  EXPECT_EQ(AsDebugRun(spec).time_limit, Millis(1'000));
}

TEST(DebugRun, NeitherReadsNorFeedsTheCheckpointsOfTheJob) {
  const auto apart = [](const std::string& dir) {
    JobSpec spec;
    spec.checkpoint.dir = dir;
    JobSpec debug = AsDebugRun(spec);
    EXPECT_FALSE(debug.checkpoint.resume);
    KeepCheckpointsApart(debug, "1a2b3c4d5e6f");
    return debug.checkpoint.dir;
  };
  EXPECT_EQ(apart("out2"), "out2.debug-1a2b3c4d");
  EXPECT_EQ(apart("/ckpt/$USER/"), "/ckpt/$USER.debug-1a2b3c4d");
  EXPECT_EQ(apart("."), "./.debug-1a2b3c4d");
  EXPECT_EQ(apart("../.."), "../../.debug-1a2b3c4d");
  EXPECT_EQ(apart("/"), "/.debug-1a2b3c4d");
  EXPECT_EQ(apart(""), "");
  JobSpec job;
  job.checkpoint.dir = "out2";
  KeepCheckpointsApart(job, "1a2b3c4d5e6f");
  EXPECT_EQ(job.checkpoint.dir, "out2") << "no debug run";
}

TEST(DebugRun, WarnsOfWhatAScriptSavedInTheDirectoryOfTheJob) {
  namespace fs = std::filesystem;
  const fs::path work = fs::path(::testing::TempDir()) / "debug_run_saves";
  fs::remove_all(work);
  fs::create_directories(work / "out2" / "checkpoint-5");
  const auto began = fs::last_write_time(work / "out2" / "checkpoint-5") + std::chrono::hours(1);
  JobSpec job;
  job.workdir = work.string();
  job.checkpoint.dir = "out2";
  JobSpec ran = AsDebugRun(job);
  KeepCheckpointsApart(ran, "1a2b3c4d");
  const std::string quiet = DebugCheckpoints(job, ran, began);
  EXPECT_NE(quiet.find("out2.debug-1a2b3c4d"), std::string::npos) << quiet;
  EXPECT_EQ(quiet.find("warning"), std::string::npos) << quiet;

  fs::create_directories(work / "out2" / "checkpoint-237");
  fs::last_write_time(work / "out2" / "checkpoint-237", began + std::chrono::seconds(1));
  const std::string warned = DebugCheckpoints(job, ran, began);
  EXPECT_NE(warned.find("out2/checkpoint-237 was written during the run"), std::string::npos)
      << warned;
  EXPECT_EQ(warned.find("checkpoint-5"), std::string::npos) << "from before: " << warned;
  job.checkpoint.dir.clear();
  EXPECT_EQ(DebugCheckpoints(job, ran, began), "");
  fs::remove_all(work);
}

TEST(DebugRun, ReportsTheStepAndScalesItToTheFullRun) {
  JobView done;
  done.state = JobState::kSucceeded;
  done.plan.emplace();
  done.plan->batch = {16, 1, 16};
  done.seconds_per_step = 2;
  AttemptView attempt;
  RankView rank;
  rank.exit.emplace();
  rank.exit->max_rss_bytes = std::uint64_t{512} << 20;
  attempt.ranks.push_back(rank);
  done.attempts.push_back(attempt);
  Plan full;
  full.batch = {64, 4, 16};
  full.steps = 900;
  const std::string text = DebugReport(done, full);
  EXPECT_NE(text.find("2 s for 16 samples (measured)"), std::string::npos) << text;
  EXPECT_NE(text.find("512"), std::string::npos) << text;
  EXPECT_NE(text.find("900 steps of 64 samples: about 2h"), std::string::npos) << text;
}

TEST(DebugRun, SaysThatTheScriptIgnoredItsLimit) {
  JobView done;
  done.state = JobState::kSucceeded;
  done.plan.emplace();
  done.plan->batch = {16, 1, 16};
  done.step = 60;
  done.seconds_per_step = 1;
  Plan full;
  full.batch = {64, 4, 16};
  full.steps = 3600;
  const std::string text = DebugReport(done, full);
  EXPECT_NE(text.find("60: the script does not read LAUNCH_MAX_STEPS=10"), std::string::npos);
  EXPECT_EQ(text.find("16 samples"), std::string::npos) << text;
  EXPECT_EQ(text.find("own batch"), std::string::npos) << "it may have taken ours: " << text;
  EXPECT_NE(text.find("3600 steps like these: about 1h"), std::string::npos) << text;
}

TEST(DebugRun, SaysWhatItDidNotSee) {
  JobView done;
  done.state = JobState::kTimeout;
  const std::string text = DebugReport(done, std::nullopt);
  EXPECT_NE(text.find("not seen"), std::string::npos);
  EXPECT_NE(text.find("LAUNCH_MAX_STEPS"), std::string::npos);
}

}  // namespace
}  // namespace launch
