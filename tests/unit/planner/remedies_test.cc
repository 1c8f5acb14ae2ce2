#include "planner/remedies.h"

#include <gtest/gtest.h>

#include "common/units.h"

namespace launch {
namespace {

RemedyInput Llama7BOn(double gib, Strategy strategy, int ranks) {
  RemedyInput input;
  input.card.params = 6738415616;
  input.card.layers = 32;
  input.card.hidden = 4096;
  input.card.heads = 32;
  input.card.ffn = 11008;
  input.card.gated_ffn = true;
  input.card.vocab = 32000;
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
  RemedyInput input = Llama7BOn(79.1, Strategy::kZero1, 8);
  input.fragmented = true;
  const auto remedies = Remedies(input);
  ASSERT_EQ(remedies.size(), 5U);
  for (std::size_t i = 1; i < remedies.size(); ++i) {
    EXPECT_LT(remedies[i - 1].kind, remedies[i].kind);
    EXPECT_GT(remedies[i].saved_bytes, 0);
  }
  EXPECT_EQ(remedies[0].kind, RemedyKind::kAllocator);
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

TEST(Remedies, ChangeOnlyWhatTheyMay) {
  RemedyInput input = Llama7BOn(40, Strategy::kDdp, 8);
  input.may_change_batch = input.may_checkpoint = input.may_shard = false;
  EXPECT_TRUE(Remedies(input).empty());
  input.setup.format = StateFormat::kFp32;
  input.setup.attention = Attention::kEager;
  EXPECT_TRUE(Remedies(input).empty());
  input.may_change_precision = true;
  ASSERT_EQ(Remedies(input).size(), 1U);
  EXPECT_EQ(Remedies(input)[0].kind, RemedyKind::kPrecision);
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
