#include "cli/probe_run.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(ProbeRun, MeasuresOneSampleAndThePlannedMicroBatch) {
  Plan plan;
  EXPECT_EQ(ProbeMicros(plan), (std::vector<std::int64_t>{1, 2}));
  plan.batch.micro = 64;
  EXPECT_EQ(ProbeMicros(plan), (std::vector<std::int64_t>{1, 8})) << "nothing says that it fits";
  plan.memory.peak_gib = 10;
  plan.memory.fits = "yes";
  EXPECT_EQ(ProbeMicros(plan), (std::vector<std::int64_t>{1, 64}));
  plan.batch.micro = 1;
  EXPECT_EQ(ProbeMicros(plan), (std::vector<std::int64_t>{1, 2}));
}

TEST(ProbeRun, TakesTheLargestRank) {
  const auto point = ReadProbe(
      "50%|##   \nlaunch-probe {\"rank\": 0, \"gpu\": true, \"load_bytes\": 5, \"peak_bytes\": 10, "
      "\"static_bytes\": 3, \"step_seconds\": 0.5}\nmore\n"
      "x launch-probe {\"rank\": 1, \"gpu\": true, \"peak_bytes\": 12, \"step_seconds\": 0.25}\n");
  ASSERT_TRUE(point);
  EXPECT_TRUE(point->gpu);
  EXPECT_EQ(point->peak_bytes, 12);
  EXPECT_EQ(point->load_bytes, 5);
  EXPECT_EQ(point->static_bytes, 3);
  EXPECT_EQ(point->step_seconds, 0.5);
}

TEST(ProbeRun, AnOutputWithoutAMeasurementHasNone) {
  EXPECT_FALSE(ReadProbe(""));
  EXPECT_FALSE(ReadProbe("launch-probe {\"peak_bytes\": \"many\"}\nlaunch-probe {oops\n"));
  EXPECT_FALSE(ReadProbe("launch-probe {\"peak_bytes\": -1}"));
  const auto odd = ReadProbe("launch-probe {\"peak_bytes\": 1, \"gpu\": \"yes\"}");
  ASSERT_TRUE(odd);
  EXPECT_FALSE(odd->gpu);
}

}  // namespace
}  // namespace launch
