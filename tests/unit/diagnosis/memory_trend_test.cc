#include "diagnosis/memory_trend.h"

#include <gtest/gtest.h>

#include <functional>

#include "common/units.h"

namespace launch {
namespace {

constexpr auto kTotal = static_cast<std::uint64_t>(44.53 * kGiBytes);
constexpr int kPeriod = 200;
constexpr int kEpoch = 3000;

// The first forecast while `gib` of time (ms) is sampled until `end`, and when it was made.
struct Seen {
  std::optional<MemoryTrend::Forecast> forecast;
  int at = 0;
};
Seen Watch(int end, const std::function<double(int)>& gib) {
  MemoryTrend trend;
  for (int ms = 0; ms < end; ms += kPeriod) {
    trend.Add(BootMs(1'000'000 + ms), static_cast<std::uint64_t>(gib(ms) * kGiBytes));
    if (const auto forecast = trend.Foresee(kTotal)) return {forecast, ms};
  }
  return {};
}

double EpochByEpoch(int ms) { return 30.0 + 3.5 * (ms / kEpoch); }

TEST(MemoryTrend, ForeseesTheFifthEpochDuringTheFourth) {
  const Seen seen = Watch(4 * kEpoch, EpochByEpoch);
  ASSERT_TRUE(seen.forecast.has_value());
  // 44.53 GiB are passed at the start of the sixth value, the fifth (44.0) leaves nothing to ask.
  const int exhausted = seen.at + static_cast<int>(seen.forecast->left.count());
  EXPECT_GE(exhausted, 3 * kEpoch);
  EXPECT_LE(exhausted, 5 * kEpoch + kEpoch);
}

TEST(MemoryTrend, ForeseesALeakOfEachStep) {
  const Seen seen = Watch(60'000, [](int ms) { return 20.0 + 0.4 * ms / 1000; });
  ASSERT_TRUE(seen.forecast.has_value());
  EXPECT_NEAR(seen.forecast->bytes_per_second, 0.4 * kGiBytes, 0.1 * kGiBytes);
  const double left = (44.53 - 20 - 0.4 * seen.at / 1000) / 0.4;
  EXPECT_NEAR(static_cast<double>(seen.forecast->left.count()) / 1000, left, 0.2 * left);
}

TEST(MemoryTrend, SeesNoneInALevel) {
  EXPECT_FALSE(Watch(300'000, [](int) { return 40.5; }).forecast.has_value());
}

TEST(MemoryTrend, SeesNoneInASawtooth) {
  for (const int period : {400, 1'000, 3'000}) {
    const auto tooth = [&](int ms) { return 30.0 + 10.0 * (ms % period) / period; };
    EXPECT_FALSE(Watch(300'000, tooth).forecast.has_value()) << period;
  }
}

TEST(MemoryTrend, SeesNoneInGrowthThatEndsWithTheFirstEpoch) {
  const auto level = [](int ms) { return ms < kEpoch ? 30.0 + 10.5 * ms / kEpoch : 40.5; };
  EXPECT_FALSE(Watch(300'000, level).forecast.has_value());
}

TEST(MemoryTrend, SeesNoneWhileAModelIsLoaded) {
  const auto load = [](int ms) { return ms < 5'000 ? 2.0 : ms < 10'000 ? 12.0 : 38.0; };
  EXPECT_FALSE(Watch(300'000, load).forecast.has_value());
}

TEST(MemoryTrend, SeesNoneWhenTheProcessIsGone) {
  const auto gone = [](int ms) { return ms < 2 * kEpoch ? EpochByEpoch(ms) : 0.0; };
  EXPECT_FALSE(Watch(300'000, gone).forecast.has_value());
}

TEST(MemoryTrend, SlowGrowthOverManySamplesIsForeseenInTime) {
  MemoryTrend trend;
  bool foreseen = false;
  double gib = 30;
  for (int i = 0; gib < 44.5; ++i, gib += 0.0005) {
    trend.Add(BootMs(1'000'000 + i * 5'000), static_cast<std::uint64_t>(gib * kGiBytes));
    foreseen = foreseen || trend.Foresee(kTotal).has_value();
  }
  EXPECT_TRUE(foreseen);
}

}  // namespace
}  // namespace launch
