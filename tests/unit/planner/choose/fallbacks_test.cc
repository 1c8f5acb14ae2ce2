// Plans of less memory for a run that is out of it: tighter in every respect, in the order of
// trial.
#include "planner/choose/fallbacks.h"

#include <gtest/gtest.h>

#include "common/units.h"
#include "tests/unit/planner/model_fixtures.h"

namespace launch {
namespace {

using testing::Llama2_7B;

struct Fallbacks : ::testing::Test {
  Fallbacks() {
    input.card = Llama2_7B();
    input.setup.framework = Framework::kHf;
    input.setup.seq = 2048;
    input.machine.gpu = GpuCatalog::VariantOf(*GpuCatalog::BuiltIn().Find("A100", 80), "A100");
    input.machine.gpus_per_node = 8;
    input.shape = {8, 8};
    input.gpu_bytes = 80.0 * static_cast<double>(kGiB);
    input.limits.batch = {512, std::nullopt, std::nullopt};
  }
  JudgedOption Taken() {
    const auto choice = ChoosePlan(input);
    EXPECT_TRUE(choice && choice->chosen);
    if (!choice || !choice->chosen) return {};
    memory = *choice->memory;
    return choice->judged[*choice->chosen];
  }
  Plan PlanOf(const JudgedOption& taken) const {
    Plan plan;
    plan.strategy = taken.option.strategy;
    plan.offload = taken.option.offload;
    plan.checkpointing = std::string(NameOf(taken.option.checkpointing));
    plan.batch = {512, taken.option.micro, taken.option.accumulate};
    return plan;
  }
  ChoiceInput input;
  MemoryEstimate memory;
};

TEST_F(Fallbacks, EachIsTighterNeedsLessAndKeepsTheGlobalBatch) {
  for (const double gib : {40.0, 80.0}) {
    input.gpu_bytes = gib * static_cast<double>(kGiB);
    const JudgedOption taken = Taken();
    const double peak = RoundedGib(PeakOf(memory, MemoryMetric::kProcess).bytes);
    const std::vector<Fallback> rows = FallbacksOf(input, taken);
    ASSERT_FALSE(rows.empty());
    for (const Fallback& row : rows) {
      EXPECT_LT(row.peak_gib, peak);
      EXPECT_TRUE(LoosensNothing(row, PlanOf(taken)));
      EXPECT_EQ(row.batch.global, 512);
      EXPECT_EQ(*row.batch.micro * *row.batch.accumulate * 8, 512);
    }
    for (std::size_t i = 1; i < rows.size(); ++i) {
      EXPECT_LE(StepOf(rows[i - 1], PlanOf(taken)), StepOf(rows[i], PlanOf(taken)));
    }
  }
}

// A micro-batch that was written down, by the user or by an earlier change, is no floor of ours.
TEST_F(Fallbacks, AWrittenMicroBatchIsMadeSmallerWithWhatTheJobFixedElse) {
  input.limits.batch = {512, 16, std::nullopt};
  input.limits.strategy = Strategy::kZero2;
  input.limits.checkpointing = Checkpointing::kFull;
  const JudgedOption taken = Taken();
  const std::vector<Fallback> rows = FallbacksOf(input, taken);
  ASSERT_GE(rows.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(rows[i].batch.micro, 8 >> i);
  for (const Fallback& row : rows) {
    EXPECT_EQ(row.checkpointing, "full");
    EXPECT_EQ(row.strategy, Strategy::kZero2);
  }
}

TEST_F(Fallbacks, RecomputationIsNeverGivenUp) {
  input.limits.batch = {512, 16, std::nullopt};
  JudgedOption taken = Taken();
  taken.option.checkpointing = Checkpointing::kFull;
  for (const Fallback& row : FallbacksOf(input, taken)) EXPECT_EQ(row.checkpointing, "full");
}

TEST_F(Fallbacks, ARowIsTightenedToAPlanFieldByField) {
  Plan plan;
  plan.strategy = Strategy::kZero2;
  plan.checkpointing = "full";
  plan.batch = {64, 2, 32};
  Fallback row;
  row.strategy = Strategy::kZero1;
  row.offload = Offload::kOptimizer;
  row.checkpointing = "none";
  row.batch = {64, 4, 16};
  EXPECT_FALSE(LoosensNothing(row, plan));
  const Fallback tight = NoLooserThan(plan, row);
  EXPECT_TRUE(LoosensNothing(tight, plan));
  EXPECT_EQ(tight.strategy, Strategy::kZero2);
  EXPECT_EQ(tight.checkpointing, "full");
  EXPECT_EQ(tight.batch.micro, 2);
  EXPECT_EQ(tight.offload, Offload::kOptimizer);
  EXPECT_EQ(StepOf(tight, plan), LighterStep::kOffload);
}

}  // namespace
}  // namespace launch
