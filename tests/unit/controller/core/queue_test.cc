#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

TEST(Queue, IsServedInTheOrderOfSubmission) {
  TestCore core;
  core.Attach("gpu1", 2);
  const JobId running = core.Submitted(GpuJob(1, 1));
  const JobId big = core.Submitted(GpuJob(1, 2));
  const JobId small = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(big).reason.code, "Resources");
  EXPECT_FALSE(core.View(big).reason.evidence.empty());
  // One GPU is free, but the job in front keeps those behind it waiting.
  EXPECT_EQ(core.View(small).reason,
            (WaitReason{"Priority", "behind " + std::to_string(big.value)}));
  core.Ignore();
  core.Cancel(running);
  core.Release("gpu1", Key{running, Attempt{1}});
  EXPECT_EQ(core.View(big).state, JobState::kStarting);
  EXPECT_EQ(core.View(small).reason.code, "Resources");
}

TEST(Queue, PassesOverAHeldJob) {
  TestCore core;
  core.Attach("gpu1", 1);
  event::Submit held;
  held.request = RequestId{1};
  held.caller.user = UserName{"ana"};
  held.idempotency_key = "h";
  held.spec = GpuJob(1, 1);
  held.hold = true;
  core.Post(held);
  const JobId job = core.Answer<reply::Submitted>(RequestId{1})->job;
  EXPECT_EQ(core.View(job).reason.code, "JobHeldUser");
  EXPECT_EQ(core.View(core.Submitted(GpuJob(1, 1))).state, JobState::kStarting);
}

TEST(Queue, PlacesAGangOnlyAsAWhole) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  core.Submitted(GpuJob(1, 1));
  const JobId gang = core.Submitted(GpuJob(2, 1));
  EXPECT_EQ(core.View(gang).reason.code, "Resources");
  EXPECT_EQ(core.Node("gpu1").free_gpus.size() + core.Node("gpu2").free_gpus.size(), 1u);
}

TEST(Queue, KeepsWhatAJobWasPlacedOnWhileItsPlanIsMade) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  core.answer_plans = false;
  core.Submit(GpuJob(1, 1));
  core.Submit(GpuJob(1, 1));
  const auto first = std::get<effect::PlanWanted>(core.effects.at(0));
  const auto second = std::get<effect::PlanWanted>(core.effects.at(1));
  core.Ignore();
  core.Post(core.Answered(first));
  core.Post(core.Answered(second));
  EXPECT_EQ(core.View(JobId{1}).reason.code, "Planning");
  EXPECT_EQ(core.View(JobId{2}).reason.code, "Resources");
}

TEST(Queue, DoesNotGiveTheSameCoresToTwoJobsOfOnePass) {
  TestCore core;
  core.answer_plans = true;
  const JobId first = core.Submitted(CpuJob(1));
  const JobId second = core.Submitted(CpuJob(1));
  core.Attach(MakeInventory("cpu1", 0, 1));
  EXPECT_EQ(core.View(first).state, JobState::kStarting);
  EXPECT_EQ(core.View(second).reason.code, "Resources");
}

TEST(Queue, PlacesAgainWhenTheNodeWentAwayWhileThePlanWasMade) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  core.answer_plans = false;
  core.Submit(GpuJob(1, 1));
  const auto submit = std::get<effect::PlanWanted>(core.effects.at(0));
  core.Ignore();
  core.Post(core.Answered(submit));
  const auto placed = std::get<effect::PlanWanted>(core.effects.back());
  core.Ignore();
  core.Detach("gpu1");
  core.Post(core.Answered(placed));
  EXPECT_EQ(core.View(JobId{1}).state, JobState::kPending);
  EXPECT_EQ(core.View(JobId{1}).reason.code, "ReqNodeNotAvail");
  EXPECT_TRUE(core.state.attempts.empty());
}

}  // namespace
}  // namespace launch::controller
