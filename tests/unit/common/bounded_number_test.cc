#include "common/bounded_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/network_answer.h"

namespace launch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(BoundedNumber, IsAWholeNumberWithinItsBounds) {
  EXPECT_EQ(WholeIn(3.0, 0, 3), 3);
  EXPECT_EQ(WholeIn(-0.0, 0, 3), 0);
  for (const double other : {4.0, -1.0, 2.5, 1e300, -1e300, kInfinity, std::nan("")})
    EXPECT_EQ(WholeIn(other, 0, 3), std::nullopt) << other;
}

TEST(BoundedNumber, SecondsAreCutToWhatATimeCanHold) {
  EXPECT_EQ(MillisOf(1.5), Millis{1'500});
  EXPECT_EQ(MillisOf(-1), Millis{0});
  EXPECT_EQ(MillisOf(std::nan("")), Millis{0});
  EXPECT_EQ(MillisOf(1e300), MillisOf(kLongestSeconds));
  EXPECT_EQ(MillisOf(kInfinity), Millis{10'000'000'000'000});
}

TEST(NetworkAnswer, OfAnImpossiblePlaceOrSpeedSaysNothing) {
  const NetworkFacts facts = ReadNetworkAnswer(
      "x\n@launch-network-test {\"ok\": true, \"allreduce_us\": 1e300, \"allreduce_mbit\": -1, "
      "\"peers\": [{\"place\": 1e300, \"ok\": true}, {\"place\": -1}, {\"place\": 1.5}, {}, "
      "{\"place\": 65536}, {\"place\": \"2\"}, {\"place\": 2, \"ok\": true, \"mbit\": 1e300, "
      "\"latency_us\": 9.5}]}\n");
  EXPECT_TRUE(facts.ok);
  EXPECT_EQ(facts.allreduce_us, std::nullopt);
  EXPECT_EQ(facts.allreduce_mbit, std::nullopt);
  ASSERT_EQ(facts.peers.size(), 1u);
  EXPECT_EQ(facts.peers[0].place, 2);
  EXPECT_EQ(facts.peers[0].mbit, std::nullopt);
  EXPECT_EQ(facts.peers[0].latency_us, 9.5);
}

}  // namespace
}  // namespace launch
