#include "planner/choose/remedies.h"

#include <gtest/gtest.h>

#include "common/units.h"
#include "tests/unit/planner/model_fixtures.h"

namespace launch {
namespace {

RemedyInput Llama7BOn(double gib, Strategy strategy, int ranks) {
  RemedyInput input;
  input.card = testing::Llama2_7B();
  input.setup.framework = Framework::kHf;
  input.setup.strategy = strategy;
  input.setup.ranks = ranks;
  input.setup.micro_batch = 6;
  input.setup.seq = 2048;
  input.accumulate = 4;
  input.limit_bytes = gib * kGiBytes;
  return input;
}

std::vector<Remedy> Remedies(const RemedyInput& input) {
  const auto remedies = MemoryRemedies(input);
  EXPECT_TRUE(remedies) << (remedies ? "" : remedies.error().message);
  return remedies.value_or(std::vector<Remedy>{});
}

const Remedy* Find(const std::vector<Remedy>& remedies, RemedyKind kind) {
  for (const Remedy& remedy : remedies)
    if (remedy.kind == kind) return &remedy;
  return nullptr;
}

TEST(Remedies, ComeInTheirOrderAndEachSaves) {
  const RemedyInput input = Llama7BOn(79.1, Strategy::kZero1, 8);
  const auto now = PredictMemory(input.card, input.setup);
  ASSERT_TRUE(now);
  const auto remedies = Remedies(input);
  ASSERT_EQ(remedies.size(), 4U);
  for (std::size_t i = 0; i < remedies.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(remedies[i - 1].kind, remedies[i].kind);
    }
    EXPECT_LT(remedies[i].bytes, DecisionBytes(*now));
  }
}

// fp32 weights under autocast become 16-bit weights with a sharded master: 13B of 66 GiB states.
TEST(Remedies, AStageBringsItsOwnFormat) {
  RemedyInput input = Llama7BOn(79.1, Strategy::kDdp, 8);
  input.card = {};
  input.card.params = 13'015'864'320;
  input.card.layers = 40;
  input.card.hidden = 5120;
  input.card.heads = 40;
  input.card.vocab = 32000;
  input.setup.format = StateFormat::kAmp;
  input.setup.micro_batch = 1;
  input.setup.checkpointing = Checkpointing::kFull;
  const auto remedies = Remedies(input);
  const Remedy* stage = Find(remedies, RemedyKind::kStage);
  ASSERT_NE(stage, nullptr);
  EXPECT_NE(stage->fit, FitVerdict::kNo);
  EXPECT_EQ(stage->setup.format, StateFormat::kMaster16);
  const Remedy* offload = Find(remedies, RemedyKind::kOffload);
  ASSERT_NE(offload, nullptr);
  EXPECT_EQ(offload->setup.format, StateFormat::kMaster16);
}

TEST(Remedies, KeepTheGlobalBatch) {
  RemedyInput input = Llama7BOn(79.1, Strategy::kZero1, 8);
  for (const double gib : {16.0, 40.0, 60.0, 79.1, 200.0}) {
    input.limit_bytes = gib * kGiBytes;
    for (const Remedy& remedy : Remedies(input))
      EXPECT_EQ(remedy.setup.micro_batch * remedy.accumulate, 24);
  }
}

TEST(Remedies, TakeTheLargestMicroBatchThatFits) {
  const auto remedies = Remedies(Llama7BOn(79.1, Strategy::kZero2, 8));
  const Remedy* smaller = Find(remedies, RemedyKind::kMicroBatch);
  ASSERT_NE(smaller, nullptr);
  EXPECT_EQ(smaller->fit, FitVerdict::kYes);
  RemedyInput larger = Llama7BOn(79.1, Strategy::kZero2, 8);
  for (std::int64_t micro = smaller->setup.micro_batch + 1; micro < 6; ++micro) {
    if (24 % micro != 0) continue;
    larger.setup.micro_batch = micro;
    const auto estimate = PredictMemory(larger.card, larger.setup);
    EXPECT_NE(JudgeFit(*estimate, larger.limit_bytes), FitVerdict::kYes) << micro;
  }
}

TEST(Remedies, OfferSixteenBitsWhereThereAreThirtyTwo) {
  RemedyInput input = Llama7BOn(40, Strategy::kDdp, 8);
  input.setup.attention = Attention::kEager;
  EXPECT_EQ(Find(Remedies(input), RemedyKind::kPrecision), nullptr);
  input.setup.format = StateFormat::kFp32;
  const auto remedies = Remedies(input);
  const Remedy* half = Find(remedies, RemedyKind::kPrecision);
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->setup.format, StateFormat::kAmp);
}

TEST(Remedies, OneGpuCannotBeDividedButOffloaded) {
  const auto remedies = Remedies(Llama7BOn(79.1, Strategy::kSingle, 1));
  EXPECT_EQ(Find(remedies, RemedyKind::kStage), nullptr);
  const Remedy* offload = Find(remedies, RemedyKind::kOffload);
  ASSERT_NE(offload, nullptr);
  EXPECT_NE(offload->setup.offload, Offload::kNone);
}

TEST(Remedies, DoNotMoveTheTroubleToTheHost) {
  RemedyInput input = Llama7BOn(20, Strategy::kZero3, 8);
  input.host_bytes = 64 * kGiBytes;
  EXPECT_EQ(Find(Remedies(input), RemedyKind::kOffload), nullptr);
  input.host_bytes = 1024 * kGiBytes;
  EXPECT_NE(Find(Remedies(input), RemedyKind::kOffload), nullptr);
}

TEST(Remedies, NeedAStepOfAtLeastOneMicroBatch) {
  RemedyInput input = Llama7BOn(40, Strategy::kDdp, 8);
  input.accumulate = 0;
  EXPECT_EQ(MemoryRemedies(input).error().message, "accumulation is 0, not between 1 and 1e9");
}

}  // namespace
}  // namespace launch
