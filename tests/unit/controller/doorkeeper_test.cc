#include "controller/services/doorkeeper.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace launch::controller {
namespace {

sockaddr_storage From(const std::string& address, int port) {
  sockaddr_storage storage{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    storage.ss_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr), 1) << address;
    storage.ss_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  }
  return storage;
}

constexpr DoorLimits kSmall{.of_source = 2, .in_all = 4, .joins_of_token = 2, .tokens = 2};
const BootTime kNow = BootMs(1'000'000);

TEST(Doorkeeper, BoundsWhatOneSourceHoldsUnproved) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 1), kNow));
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 2), kNow));
  EXPECT_FALSE(door.LetIn(From("10.0.0.1", 3), kNow));
  EXPECT_TRUE(door.LetIn(From("10.0.0.2", 3), kNow)) << "others are not concerned";
  EXPECT_EQ(door.unproved(), 3u);
}

TEST(Doorkeeper, BoundsThemAll) {
  Doorkeeper door(kSmall);
  for (int i = 1; i <= 4; ++i) {
    EXPECT_TRUE(door.LetIn(From("10.0.0." + std::to_string(i), 1), kNow));
  }
  EXPECT_FALSE(door.LetIn(From("10.0.0.5", 1), kNow));
}

TEST(Doorkeeper, AProvedConnectionDoesNotCount) {
  Doorkeeper door(kSmall);
  for (int port = 1; port <= 100; ++port) {
    ASSERT_TRUE(door.LetIn(From("10.0.0.1", port), kNow));
    door.Proved("ipv4:10.0.0.1:" + std::to_string(port));
    door.Proved("ipv4:10.0.0.1:" + std::to_string(port)) /* each call says it again */;
  }
  EXPECT_EQ(door.unproved(), 0u);
}

TEST(Doorkeeper, KnowsAPeerByEveryNameThatItIsGiven) {
  Doorkeeper door(kSmall);
  ASSERT_TRUE(door.LetIn(From("fe80::1", 7), kNow));
  door.Proved("ipv6:%5Bfe80::1%252%5D:7");
  EXPECT_EQ(door.unproved(), 0u);
  ASSERT_TRUE(door.LetIn(From("2001:db8::1", 7), kNow));
  door.Proved("ipv6:[2001:db8::1]:7");
  EXPECT_EQ(door.unproved(), 0u);
  ASSERT_TRUE(door.LetIn(From("::ffff:10.0.0.9", 7), kNow));
  door.Proved("ipv4:10.0.0.9:7");
  EXPECT_EQ(door.unproved(), 0u);
}

TEST(Doorkeeper, NonsenseProvesNobody) {
  Doorkeeper door(kSmall);
  ASSERT_TRUE(door.LetIn(From("10.0.0.1", 7), kNow));
  for (const char* name : {"", ":", "ipv4:", "ipv4:10.0.0.1", "ipv4:10.0.0.1:", "ipv4:10.0.0.1:7x",
                           "ipv4:10.0.0.1:70000", "unix:/run/x", "ipv4:10.0.0.2:7"}) {
    door.Proved(name);
  }
  EXPECT_EQ(door.unproved(), 1u);
}

TEST(Doorkeeper, AHandshakeWhoseTimeIsOverCountsNoMore) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 1), kNow));
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 2), kNow + Millis{3'000}));
  EXPECT_FALSE(door.LetIn(From("10.0.0.1", 3), kNow + Millis{5'999}));
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 3), kNow + Millis{6'000}));
  EXPECT_FALSE(door.LetIn(From("10.0.0.1", 4), kNow + Millis{6'000}));
}

TEST(Doorkeeper, APortThatComesAgainCountsOnceAndFromAnew) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 1), kNow));
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 1), kNow + Millis{4'000}));
  EXPECT_EQ(door.unproved(), 1u);
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 2), kNow + Millis{7'000}));
  EXPECT_EQ(door.unproved(), 2u) << "the time of the second one is not over";
}

TEST(Doorkeeper, ANetworkOfIpv6IsOneSource) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(door.LetIn(From("2001:db8:0:1::1", 1), kNow));
  EXPECT_TRUE(door.LetIn(From("2001:db8:0:1:ffff::2", 1), kNow));
  EXPECT_FALSE(door.LetIn(From("2001:db8:0:1::3", 1), kNow));
  EXPECT_TRUE(door.LetIn(From("2001:db8:0:2::3", 1), kNow));
}

TEST(Doorkeeper, ATokenMayJoinAFewTimesAMinute) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(door.MayJoin("a", kNow));
  EXPECT_TRUE(door.MayJoin("a", kNow));
  EXPECT_FALSE(door.MayJoin("a", kNow + Millis{59'999}));
  EXPECT_TRUE(door.MayJoin("b", kNow));
  EXPECT_FALSE(door.MayJoin("c", kNow + Millis{1})) << "more tokens than are remembered";
  EXPECT_TRUE(door.MayJoin("a", kNow + Millis{60'000}));
  EXPECT_TRUE(door.MayJoin("c", kNow + Millis{60'001})) << "b is forgotten";
}

}  // namespace
}  // namespace launch::controller
