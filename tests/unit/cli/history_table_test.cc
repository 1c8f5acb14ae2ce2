#include "cli/history_table.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

JobView Done() {
  JobView job;
  job.id = JobId{7};
  job.name = "sft";
  job.user = "ana";
  job.state = JobState::kSucceeded;
  job.exit_code = 0;
  job.gpus = 4;
  job.nodes = 1;
  job.step = 100;
  job.steps = 100;
  job.seconds_per_step = 27;
  job.started = WallMs(1'000'000);
  job.ended = WallMs(1'000'000 + 3'600'000);
  return job;
}

TEST(History, SharesTheTimeThatStepsTook) {
  JobView job = Done();
  EXPECT_DOUBLE_EQ(*TrainedShare(job), 0.75);
  EXPECT_DOUBLE_EQ(GpuHours(job), 4.0);
  job.step.reset();
  EXPECT_FALSE(TrainedShare(job)) << "no progress was printed";
  job = Done();
  job.started = WallMs(0);
  EXPECT_FALSE(TrainedShare(job)) << "it never ran";
  EXPECT_DOUBLE_EQ(GpuHours(job), 0.0);
}

TEST(History, ATableRowTellsHowItEnded) {
  const std::string table = FormatTable(HistoryTable({Done()}), 0);
  for (const char* cell : {"TRAINED", "75%", "4.00", "100/100", "sft"}) {
    EXPECT_NE(table.find(cell), std::string::npos) << cell << "\n" << table;
  }
  const std::string json = HistoryJson({Done()});
  EXPECT_NE(json.find("\"trained_share\": 0.75"), std::string::npos) << json;
}

TEST(History, TheNameOfAnArrayIsThatOfItsElements) {
  JobView job = Done();
  job.name = "sft_2";
  EXPECT_TRUE(HasName(job, "sft_2"));
  EXPECT_FALSE(HasName(job, "sft")) << "a job of that name is no element";
  job.array = JobId{5};
  job.array_index = 2;
  EXPECT_TRUE(HasName(job, "sft"));
  EXPECT_FALSE(HasName(job, "sf"));
}

TEST(History, MarksWhatWasNoWholeRun) {
  JobView job = Done();
  job.kind = "debug";
  EXPECT_NE(FormatTable(HistoryTable({job}), 0).find("sft (debug)"), std::string::npos);
  EXPECT_NE(HistoryJson({job}).find("\"kind\": \"debug\""), std::string::npos);
}

TEST(History, SaysWhyAJobFailed) {
  JobView job = Done();
  job.state = JobState::kFailed;
  AttemptView attempt;
  attempt.verdict = Verdict{.label = "cuda_oom", .confidence = Confidence::kLikely};
  job.attempts = {attempt};
  EXPECT_NE(FormatTable(HistoryTable({job}), 0).find("cuda_oom (likely)"), std::string::npos);
  EXPECT_NE(HistoryJson({job}).find("\"confidence\": \"likely\""), std::string::npos);
  job.attempts.push_back({});  // a later attempt went well
  EXPECT_EQ(FormatTable(HistoryTable({job}), 0).find("cuda_oom"), std::string::npos);
}

}  // namespace
}  // namespace launch
