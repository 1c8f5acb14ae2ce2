#include "planner/model/batch.h"

#include <gtest/gtest.h>

#include <random>

namespace launch {
namespace {

using Number = std::optional<std::int64_t>;

TEST(Batch, NothingGivenPlansNothing) {
  const auto choice = SplitBatch({}, 8);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->split, BatchSplit{});
}

TEST(Batch, GlobalAndMicroGiveTheAccumulation) {
  EXPECT_EQ(SplitBatch({64, 8, {}}, 2)->split, (BatchSplit{64, 8, 4}));
}

TEST(Batch, GlobalAndAccumulationGiveTheMicroBatch) {
  EXPECT_EQ(SplitBatch({64, {}, 4}, 2)->split, (BatchSplit{64, 8, 4}));
}

TEST(Batch, MicroAloneMeansNoAccumulation) {
  EXPECT_EQ(SplitBatch({{}, 8, {}}, 2)->split, (BatchSplit{16, 8, 1}));
}

TEST(Batch, GlobalAloneIsTakenAtOnceAndSaid) {
  const auto choice = SplitBatch({64, {}, {}}, 4);
  EXPECT_EQ(choice->split, (BatchSplit{64, 16, 1}));
  ASSERT_EQ(choice->warnings.size(), 1U);
  EXPECT_NE(choice->warnings[0].says.find("16"), std::string::npos);
}

TEST(Batch, AnImpossibleProductOffersTheNearestChoices) {
  const auto choice = SplitBatch({70, 8, {}}, 2);
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(choice.error().hint.find("64 or 80"), std::string::npos) << choice.error().hint;
  EXPECT_NE(choice.error().hint.find("7 or 35"), std::string::npos) << choice.error().hint;
}

TEST(Batch, ThreeNumbersMustAgreeWithTheProcesses) {
  EXPECT_TRUE(SplitBatch({64, 8, 4}, 2));
  const auto choice = SplitBatch({64, 8, 4}, 4);
  ASSERT_FALSE(choice);
  EXPECT_NE(choice.error().message.find("= 128"), std::string::npos);
}

TEST(Batch, RefusesWhatNoNumberOfProcessesCanMakeRight) {
  EXPECT_FALSE(CheckBatch({64, 8, 3}));
  EXPECT_FALSE(CheckBatch({4, 8, {}}));
  EXPECT_FALSE(CheckBatch({0, {}, {}}));
  EXPECT_FALSE(CheckBatch({{}, -1, {}}));
  EXPECT_FALSE(CheckBatch({{}, std::int64_t{1} << 62, {}}));
  EXPECT_TRUE(CheckBatch({64, 8, 4}));
}

TEST(Batch, NumbersWhoseProductNobodyMeansAreRefused) {
  constexpr std::int64_t kMost = 1'000'000'000'000;
  const BatchSpec absurd[] = {
      {kMost, kMost, kMost}, {kMost, {}, kMost}, {kMost, kMost, {}}, {{}, kMost, kMost}};
  for (const BatchSpec& spec : absurd) {
    const auto choice = SplitBatch(spec, 1'000'000);
    ASSERT_FALSE(choice);
    EXPECT_NE(choice.error().message.find("too large"), std::string::npos)
        << choice.error().message;
  }
}

// For any numbers: either the product is exact, or the offered choices make it exact.
TEST(Batch, TheProductIsAlwaysExact) {
  std::mt19937 random(7);
  const auto pick = [&](int to) { return static_cast<std::int64_t>(random() % to) + 1; };
  for (int i = 0; i < 20000; ++i) {
    const int world = static_cast<int>(pick(64));
    BatchSpec spec;
    if (random() % 4 != 0) spec.global = pick(4096);
    if (random() % 2 != 0) spec.micro = pick(128);
    if (random() % 2 != 0) spec.accumulate = pick(64);
    const auto choice = SplitBatch(spec, world);
    if (!choice) {
      ASSERT_TRUE(spec.global);
      ASSERT_FALSE(choice.error().hint.empty());
      continue;
    }
    const BatchSplit& split = choice->split;
    if (spec.global) ASSERT_EQ(split.global, spec.global);
    if (spec.micro) ASSERT_EQ(split.micro, spec.micro);
    if (spec.accumulate) ASSERT_EQ(split.accumulate, spec.accumulate);
    if (split.global) ASSERT_EQ(*split.global, *split.micro * *split.accumulate * world);
  }
}

TEST(Batch, TheOfferedGlobalBatchIsAccepted) {
  for (std::int64_t global = 1; global <= 300; ++global) {
    for (const int world : {1, 2, 3, 8}) {
      const auto choice = SplitBatch({global, 4, {}}, world);
      if (choice || global < 4) continue;
      const std::string& hint = choice.error().hint;
      const std::size_t at = hint.find("batch.global: ") + 14;
      const std::int64_t offered = std::stoll(hint.substr(at));
      EXPECT_TRUE(SplitBatch({offered, 4, {}}, world)) << global << " " << hint;
    }
  }
}

}  // namespace
}  // namespace launch
