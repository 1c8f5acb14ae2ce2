#include "cli/unstarted_verdict.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(UnstartedVerdict, OfAJobThatWaitsNamesExplain) {
  const JobView job{.id = JobId{22}, .reason = {"Resources", "no free GPU"}};
  const auto verdict = VerdictOfUnstarted(job);
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().message, "job 22 has not started: it waits for Resources: no free GPU");
  EXPECT_NE(verdict.error().hint.find("launch explain 22"), std::string::npos);
}

TEST(UnstartedVerdict, OfAJobThatItsDependencyEndedIsThatDependency) {
  const JobView job{.id = JobId{41},
                    .state = JobState::kFailed,
                    .sub_reason = "DEPENDENCY",
                    .outcome = "afterok:40 can never be: job 40 is FAILED"};
  const auto verdict = VerdictOfUnstarted(job);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->label, "dependency");
  EXPECT_EQ(verdict->cause, job.outcome);
}

TEST(UnstartedVerdict, OfAJobCancelledInTheQueueSaysSo) {
  const auto verdict = VerdictOfUnstarted(
      {.id = JobId{7}, .state = JobState::kCancelled, .outcome = "cancelled by ann"});
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().message, "job 7 never started: it is CANCELLED");
}

}  // namespace
}  // namespace launch
