#include "cli/debug_run.h"

#include <gtest/gtest.h>

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
