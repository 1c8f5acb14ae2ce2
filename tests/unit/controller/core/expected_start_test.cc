// When a waiting job may start, who has what it needs, and what would help.
#include "controller/core/expected_start.h"

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

JobSpec WithLimit(JobSpec spec, int minutes) {
  spec.time_limit = Millis{minutes * 60'000};
  return spec;
}

struct ExpectedStart : testing::Test {
  ExpectedStart() {
    core.Attach("gpu1", 2);
    core.Attach("gpu2", 2);
    core.Ignore();
  }
  StartForecast Of(JobId job) {
    return ForecastStart(core.state, core.state.jobs.at(job), core.now);
  }
  std::string Sooner(const StartForecast& start) {
    std::string text;
    for (const std::string& change : start.sooner) text += change + "\n";
    return text;
  }
  TestCore core;
};

TEST_F(ExpectedStart, FollowsFromTheEndsOfThoseWhoHaveWhatItNeeds) {
  const JobId late = core.Submitted(WithLimit(GpuJob(1, 2), 90));
  const JobId soon = core.Submitted(WithLimit(GpuJob(1, 2), 30));
  core.Run(late);
  core.Run(soon);
  const JobId one = core.Submitted(GpuJob(1, 2));
  const StartForecast start = Of(one);
  ASSERT_TRUE(start.start);
  EXPECT_EQ(*start.start, core.now.wall + Millis{30 * 60'000});
  ASSERT_EQ(start.holders.size(), 1u) << "the other one ends later";
  EXPECT_EQ(start.holders[0].job, soon);
  EXPECT_EQ(start.holders[0].gpus, 2);
  EXPECT_NE(start.basis.find("time limit"), std::string::npos) << start.basis;

  core.Cancel(one);
  core.Ignore();
  const StartForecast both = Of(core.Submitted(GpuJob(2, 2)));
  ASSERT_TRUE(both.start);
  EXPECT_EQ(*both.start, core.now.wall + Millis{90 * 60'000});
  ASSERT_EQ(both.holders.size(), 2u);
  EXPECT_EQ(both.holders[0].job, soon) << "the first end first";
}

TEST_F(ExpectedStart, ServesThoseInFrontFirst) {
  core.Run(core.Submitted(WithLimit(GpuJob(1, 2), 10)));
  core.Run(core.Submitted(WithLimit(GpuJob(1, 2), 20)));
  const JobId big = core.Submitted(WithLimit(GpuJob(1, 2), 600));
  const JobId next = core.Submitted(GpuJob(1, 1));
  const StartForecast start = Of(next);
  EXPECT_EQ(start.ahead, std::vector<JobId>{big});
  ASSERT_TRUE(start.start);
  EXPECT_EQ(*start.start, core.now.wall + Millis{20 * 60'000}) << "the first end serves the other";
  ASSERT_TRUE(Of(big).start);
  EXPECT_EQ(*Of(big).start, core.now.wall + Millis{10 * 60'000});
}

TEST_F(ExpectedStart, CountsAllThatAreInFrontOfALongQueue) {
  core.Run(core.Submitted(WithLimit(GpuJob(2, 2), 10)));
  for (int i = 0; i < 40; ++i) core.Submitted(GpuJob(2, 2));
  const StartForecast start = Of(core.Submitted(GpuJob(1, 1)));
  EXPECT_EQ(start.basis, "40 jobs are in front of it");
  EXPECT_NE(AsFinding(start, core.now).evidence.find(" and 36 more"), std::string::npos);
}

TEST_F(ExpectedStart, SpeaksOfOneJobAndOfSeveral) {
  const JobId one = core.Submitted(GpuJob(1, 2));
  const JobId other = core.Submitted(GpuJob(1, 2));
  core.Run(one);
  core.Run(other);
  const std::string ids = std::to_string(one.value) + ", " + std::to_string(other.value);
  EXPECT_EQ(Of(core.Submitted(GpuJob(2, 2))).basis, "nothing says when jobs " + ids + " end");
}

TEST_F(ExpectedStart, IsNotKnownWithoutAnEnd) {
  const JobId endless = core.Submitted(GpuJob(2, 2));
  core.Run(endless);
  const StartForecast start = Of(core.Submitted(GpuJob(1, 1)));
  EXPECT_FALSE(start.start);
  EXPECT_EQ(start.basis, "nothing says when job " + std::to_string(endless.value) + " ends");
  ASSERT_EQ(start.holders.size(), 1u);
  EXPECT_FALSE(start.holders[0].ends);
}

TEST_F(ExpectedStart, NamesChangesThatFitWhatIsFree) {
  core.Run(core.Submitted(GpuJob(1, 2)));
  const JobId waits = core.Submitted(GpuJob(2, 2));
  const std::string id = std::to_string(waits.value);
  const StartForecast start = Of(waits);
  EXPECT_NE(Sooner(start).find("launch update " + id + " nodes=1"), std::string::npos)
      << Sooner(start);
  // Free GPUs that somebody in front waits for: only a priority helps.
  const JobId small = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(Of(small).sooner, std::vector<std::string>{
                                  "launch update " + std::to_string(small.value) + " priority=51"});
}

TEST_F(ExpectedStart, NamesNodesThatAnOperatorTookOut) {
  core.Post(event::Drain{RequestId{901}, {UserName{"op"}, true}, NodeId{"gpu2"}, false, "fan"});
  core.Ignore();
  core.Run(core.Submitted(WithLimit(GpuJob(1, 2), 10)));
  const StartForecast start = Of(core.Submitted(GpuJob(2, 1)));
  EXPECT_FALSE(start.start);
  EXPECT_EQ(start.basis, "it waits for nodes or GPUs that serve nobody now");
  const StartForecast one = Of(core.Submitted(GpuJob(1, 2)));
  ASSERT_TRUE(one.start);
  EXPECT_NE(Sooner(one).find("launch undrain gpu2"), std::string::npos) << Sooner(one);
}

TEST_F(ExpectedStart, AHeldJobWaitsForItsRelease) {
  event::Submit held;
  held.request = RequestId{1};
  held.caller.user = UserName{"ana"};
  held.idempotency_key = "h";
  held.spec = GpuJob(1, 1);
  held.hold = true;
  core.Post(held);
  const JobId job = core.Answer<reply::Submitted>(RequestId{1})->job;
  const StartForecast start = Of(job);
  EXPECT_FALSE(start.start);
  EXPECT_EQ(start.sooner, std::vector<std::string>{"launch release " + std::to_string(job.value)});
}

TEST_F(ExpectedStart, APlanSaysItBeforeTheSubmit) {
  core.Run(core.Submitted(WithLimit(GpuJob(2, 2), 15)));
  event::PlanQuery query;
  query.request = RequestId{902};
  query.caller.user = UserName{"ana"};
  query.spec = GpuJob(1, 1);
  core.Post(query);
  const auto answer = core.Answer<PlanAnswer>(RequestId{902});
  ASSERT_TRUE(answer && answer->waits);
  EXPECT_NE(answer->waits->evidence.find("expected start in 15m"), std::string::npos)
      << answer->waits->evidence;
}

TEST_F(ExpectedStart, APlanSaysWhenTheJobBegins) {
  event::PlanQuery query;
  query.request = RequestId{902};
  query.caller.user = UserName{"ana"};
  query.spec = GpuJob(1, 1);
  query.spec.begin = core.now.wall + Millis{49'500'000};
  core.Post(query);
  auto answer = core.Answer<PlanAnswer>(RequestId{902});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->waits, WaitForBegin(*query.spec.begin, core.now.wall));
  // Who runs until later than that is said beside it.
  core.Run(core.Submitted(WithLimit(GpuJob(2, 2), 60)));
  query.request = RequestId{903};
  query.spec.begin = core.now.wall + Millis{60'000};
  core.Post(query);
  answer = core.Answer<PlanAnswer>(RequestId{903});
  ASSERT_TRUE(answer && answer->waits);
  EXPECT_EQ(answer->waits->code, "BeginTime");
  EXPECT_TRUE(answer->waits->evidence.find("in 1m; expected start in 1h") != std::string::npos)
      << answer->waits->evidence;
}

TEST_F(ExpectedStart, StandsInTheFullStatusOfAWaitingJob) {
  const JobId busy = core.Submitted(WithLimit(GpuJob(2, 2), 15));
  core.Run(busy);
  const JobId waits = core.Submitted(GpuJob(1, 1));
  core.Ignore();
  const auto full = [&](JobId job) {
    core.Post(event::GetJob{RequestId{900}, {UserName{"ana"}, false}, job});
    return core.Answer<JobView>(RequestId{900}).value_or(JobView());
  };
  ASSERT_EQ(full(waits).findings.size(), 1u);
  const Finding finding = full(waits).findings[0];
  EXPECT_EQ(finding.code, "expected_start");
  EXPECT_EQ(finding.severity, Severity::kNotice);
  EXPECT_NE(finding.says.find("in 15m"), std::string::npos) << finding.says;
  EXPECT_NE(finding.evidence.find("job 1 (train of ana) has 4 GPUs on gpu[1-2], ends in 15m"),
            std::string::npos)
      << finding.evidence;
  EXPECT_TRUE(full(busy).findings.empty());
}

}  // namespace
}  // namespace launch::controller
