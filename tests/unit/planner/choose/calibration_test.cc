#include "planner/choose/calibration.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

MeasuredRun Took(std::string device, int ranks, std::optional<double> step,
                 std::optional<double> seconds = std::nullopt) {
  return {"paper", std::move(device), ranks, 64, step, seconds};
}

RunShape Shape(std::string device, int ranks) {
  return {"paper", std::move(device), ranks, 64, 120};
}

TEST(Calibration, TakesTheMeasuredRunOfTheSameShape) {
  const auto time =
      TimeByHistory({Took("RTX3090", 1, 270), Took("A100-40GB", 1, 150)}, Shape("A100-40GB", 1));
  ASSERT_TRUE(time);
  EXPECT_EQ(time->duration.basis, Basis::kMeasured);
  EXPECT_DOUBLE_EQ(*time->duration.seconds, 150 * 120);
  EXPECT_LT(*time->duration.low, 150 * 120);
  EXPECT_EQ(time->from, "measured on 1 x A100-40GB");
  EXPECT_EQ(time->compared, "");  // nothing else is faster
}

TEST(Calibration, ScalesAStepToOtherRanksAndSaysSo) {
  const auto time = TimeByHistory({Took("A100-40GB", 1, 150)}, Shape("A100-40GB", 4));
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(*time->duration.seconds, 150.0 / 4 * 120);
  EXPECT_NE(time->from.find("scaled to 4 ranks"), std::string::npos);
}

TEST(Calibration, ComparesWithTheFastestOtherDevice) {
  const std::vector<MeasuredRun> history = {Took("RTX4090", 1, std::nullopt, 150),
                                            Took("mps", 1, std::nullopt, 300),
                                            Took("cpu", 1, std::nullopt, 1800)};
  RunShape shape{"paper", "cpu", 1, std::nullopt, std::nullopt};
  const auto time = TimeByHistory(history, shape);
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(*time->duration.seconds, 1800);
  EXPECT_EQ(time->compared, "12x the time of RTX4090 (150 s)");
}

TEST(Calibration, TrustsAWholeRunLessWhereTheJobNamesItsSteps) {
  RunShape shape = Shape("cpu", 1);
  const auto width = [&] {
    const auto time = TimeByHistory({Took("cpu", 1, std::nullopt, 1000)}, shape);
    return *time->duration.high / *time->duration.seconds - 1;
  };
  EXPECT_NEAR(width(), 0.05, 1e-9);
  shape.bounded = true;
  EXPECT_NEAR(width(), 0.25, 1e-9);
}

TEST(Calibration, KnowsNothingOfOtherJobsAndDevices) {
  EXPECT_FALSE(TimeByHistory({}, Shape("A100-40GB", 1)));
  EXPECT_FALSE(TimeByHistory({Took("RTX3090", 1, 270)}, Shape("A100-40GB", 1)));
  RunShape other = Shape("RTX3090", 1);
  other.job = "another";
  EXPECT_FALSE(TimeByHistory({Took("RTX3090", 1, 270)}, other));
}

TEST(Calibration, MeasuresByTheSameProgramOnly) {
  MeasuredRun debug_run = Took("cpu", 1, std::nullopt, 10);
  debug_run.script = "0000000000000001";
  RunShape shape = Shape("cpu", 1);
  shape.script = "0000000000000002";
  EXPECT_FALSE(TimeByHistory({debug_run}, shape)) << "another command of the same name";
  shape.script = debug_run.script;
  EXPECT_TRUE(TimeByHistory({debug_run}, shape));
  debug_run.script.clear();
  EXPECT_TRUE(TimeByHistory({debug_run}, shape)) << "a calibration file goes by the name";
}

TEST(Calibration, ScalesNothingToOtherRanksWithoutABatch) {
  MeasuredRun run = Took("cpu", 1, 2.5, 100);
  RunShape shape = Shape("cpu", 2);
  EXPECT_TRUE(TimeByHistory({run}, shape));
  run.global_batch.reset();
  EXPECT_FALSE(TimeByHistory({run}, shape)) << "two ranks may do all of it twice";
  shape.ranks = 1;
  EXPECT_TRUE(TimeByHistory({run}, shape));
}

MeasuredRun Keyed(double measured, double cold) {
  MeasuredRun run = Took("A100-40GB", 1, measured);
  run.architecture = "llama";
  run.framework = "hf";
  run.strategy = "zero1";
  run.cold_step_seconds = cold;
  return run;
}

TEST(Calibration, CorrectsByTheMedianOfRunsOfTheSameKey) {
  const MeasuredRun asked = Keyed(1, 1);
  EXPECT_FALSE(CorrectionOf({}, asked));
  const auto three = CorrectionOf({Keyed(12, 10), Keyed(13, 10), Keyed(30, 10)}, asked);
  ASSERT_TRUE(three);
  EXPECT_DOUBLE_EQ(three->factor, 1.3);
  EXPECT_EQ(three->runs, 3);
  EXPECT_GE(three->spread, 0.1);
  EXPECT_LE(three->spread, 0.25);
  EXPECT_DOUBLE_EQ(CorrectionOf({Keyed(900, 10)}, asked)->factor, 4) << "bounded";
}

TEST(Calibration, OfAnotherKeyLearnsNothing) {
  const MeasuredRun asked = Keyed(1, 1);
  for (const auto change : {&MeasuredRun::architecture, &MeasuredRun::framework,
                            &MeasuredRun::strategy, &MeasuredRun::device}) {
    MeasuredRun other = Keyed(12, 10);
    other.*change = "H100";
    EXPECT_FALSE(CorrectionOf({other}, asked));
  }
  MeasuredRun unknown = Keyed(12, 10);
  unknown.architecture = "";
  EXPECT_FALSE(CorrectionOf({unknown}, unknown));
}

TEST(Calibration, PrefersTheNewestOfEquals) {
  const auto time =
      TimeByHistory({Took("RTX3090", 1, 300), Took("RTX3090", 2, 90), Took("RTX3090", 1, 270)},
                    Shape("RTX3090", 1));
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(*time->duration.step_seconds, 270);
}

}  // namespace
}  // namespace launch
