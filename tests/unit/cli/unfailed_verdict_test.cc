#include "cli/unfailed_verdict.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

AttemptView Try(std::uint32_t number, const std::string& label) {
  AttemptView attempt;
  attempt.attempt = Attempt{number};
  if (!label.empty())
    attempt.verdict = Verdict{.label = label, .cause = "a cause", .action = "retry_same"};
  return attempt;
}

TEST(UnfailedVerdict, OfASuccessNamesTheAttemptThatFailedBeforeIt) {
  const JobView job{.id = JobId{12},
                    .state = JobState::kSucceeded,
                    .attempts = {Try(1, "cuda_oom"), Try(2, "none")}};
  const auto said = VerdictOfUnfailed(job);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->says, "job 12 succeeded; attempt 1 had failed:");
  EXPECT_EQ(said->verdict, *job.attempts[0].verdict) << "the same one for ever";
}

TEST(UnfailedVerdict, OfWhatNeverFailedIsNone) {
  JobView job{.id = JobId{12}, .state = JobState::kSucceeded, .attempts = {Try(1, "")}};
  auto said = VerdictOfUnfailed(job);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->says, "job 12 succeeded: nothing of it has failed");
  EXPECT_EQ(said->verdict.label, "none");
  EXPECT_EQ(said->verdict.action, "continue");
  job.state = JobState::kRunning;
  said = VerdictOfUnfailed(job);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->says, "job 12 is RUNNING: nothing of it has failed");
}

TEST(UnfailedVerdict, OfACancelledJobSaysWhose) {
  JobView job{.id = JobId{12},
              .state = JobState::kCancelled,
              .outcome = "cancelled by ann",
              .attempts = {Try(1, "none")}};
  EXPECT_EQ(VerdictOfUnfailed(job)->says, "job 12 was cancelled by ann");
  job.attempts.clear();
  EXPECT_EQ(VerdictOfUnfailed(job)->says, "job 12 was cancelled by ann before it started");
}

TEST(UnfailedVerdict, IsNoneOfAJobThatFailedOrFailsNow) {
  JobView job{.id = JobId{12}, .state = JobState::kFailed, .attempts = {Try(1, "cuda_oom")}};
  EXPECT_FALSE(VerdictOfUnfailed(job));
  job.state = JobState::kRunning;
  EXPECT_FALSE(VerdictOfUnfailed(job)) << "its newest attempt has a verdict";
  job.state = JobState::kPending;
  EXPECT_FALSE(VerdictOfUnfailed(job));
  job = {.id = JobId{12}, .state = JobState::kRunning, .attempts = {Try(1, "")}};
  RankView rank;
  rank.exit.emplace();
  rank.exit->cause = Exited{1};
  job.attempts[0].ranks = {rank};
  EXPECT_FALSE(VerdictOfUnfailed(job)) << "a rank of it has ended with an error";
}

}  // namespace
}  // namespace launch
