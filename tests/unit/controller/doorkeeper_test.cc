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

constexpr DoorLimits kSmall{
    .of_source = 2, .in_all = 4, .of_identity = 3, .joins_of_token = 2, .tokens = 2};
const BootTime kNow = BootMs(1'000'000);
constexpr Millis kWait = kSmall.unproved_for;
constexpr Millis kMemory = kSmall.remembered_for;

// The handle is the port.
bool LetIn(Doorkeeper& door, const std::string& address, int port, BootTime now = kNow) {
  return door.LetIn(From(address, port), port, now);
}

std::string Name(int port) { return "ipv4:10.0.0.1:" + std::to_string(port); }

TEST(Doorkeeper, BoundsWhatOneSourceHoldsUnproved) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(LetIn(door, "10.0.0.1", 1));
  EXPECT_TRUE(LetIn(door, "10.0.0.1", 2));
  EXPECT_FALSE(LetIn(door, "10.0.0.1", 3));
  EXPECT_TRUE(LetIn(door, "10.0.0.2", 3)) << "others are not concerned";
  EXPECT_EQ(door.unproved(), 3u);
}

TEST(Doorkeeper, BoundsThemAll) {
  Doorkeeper door(kSmall);
  for (int i = 1; i <= 4; ++i) {
    EXPECT_TRUE(LetIn(door, "10.0.0." + std::to_string(i), i));
  }
  EXPECT_FALSE(LetIn(door, "10.0.0.5", 5));
}

TEST(Doorkeeper, AProvedConnectionDoesNotCountAgainstItsSource) {
  Doorkeeper door(kSmall);
  for (int port = 1; port <= 100; ++port) {
    ASSERT_TRUE(LetIn(door, "10.0.0.1", port));
    ASSERT_TRUE(door.Proved(Name(port), "user " + std::to_string(port)));
    ASSERT_TRUE(door.Proved(Name(port), "user " + std::to_string(port))) << "each call says it";
  }
  EXPECT_EQ(door.unproved(), 0u);
  EXPECT_TRUE(door.Overdue(kNow + 10 * kWait).empty());
}

TEST(Doorkeeper, BoundsWhatOneIdentityHolds) {
  Doorkeeper door(kSmall);
  for (int port = 1; port <= 4; ++port) {
    ASSERT_TRUE(LetIn(door, "10.0.0.1", port));
    EXPECT_EQ(door.Proved(Name(port), "ana"), port < 4) << port;
  }
  EXPECT_TRUE(door.Proved(Name(1), "ana")) << "what she has goes on";
  EXPECT_EQ(door.unproved(), 1u) << "the one too many is a stranger's";
  EXPECT_TRUE(door.Proved(Name(4), "ben"));
  door.Gone(2, kNow);
  ASSERT_TRUE(LetIn(door, "10.0.0.1", 5));
  EXPECT_TRUE(door.Proved(Name(5), "ana")) << "one of hers has ended";
}

TEST(Doorkeeper, KnowsAPeerByEveryNameThatItIsGiven) {
  Doorkeeper door(kSmall);
  ASSERT_TRUE(LetIn(door, "fe80::1", 7));
  EXPECT_TRUE(door.Proved("ipv6:%5Bfe80::1%252%5D:7", "a"));
  EXPECT_EQ(door.unproved(), 0u);
  ASSERT_TRUE(LetIn(door, "2001:db8::1", 8));
  EXPECT_TRUE(door.Proved("ipv6:[2001:db8::1]:8", "a"));
  EXPECT_EQ(door.unproved(), 0u);
  ASSERT_TRUE(LetIn(door, "::ffff:10.0.0.9", 9));
  EXPECT_TRUE(door.Proved("ipv4:10.0.0.9:9", "a"));
  EXPECT_EQ(door.unproved(), 0u);
}

TEST(Doorkeeper, NonsenseProvesNobody) {
  Doorkeeper door(kSmall);
  ASSERT_TRUE(LetIn(door, "10.0.0.1", 7));
  for (const char* name : {"", ":", "ipv4:", "ipv4:10.0.0.1", "ipv4:10.0.0.1:", "ipv4:10.0.0.1:7x",
                           "ipv4:10.0.0.1:70000", "unix:/run/x", "ipv4:10.0.0.2:7"}) {
    EXPECT_TRUE(door.Proved(name, "a"));
  }
  EXPECT_EQ(door.unproved(), 1u);
}

TEST(Doorkeeper, AStrangerCountsForAsLongAsItsConnectionIsOpen) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(LetIn(door, "10.0.0.1", 1));
  EXPECT_TRUE(LetIn(door, "10.0.0.1", 2));
  EXPECT_FALSE(LetIn(door, "10.0.0.1", 3, kNow + 10 * kWait));
  door.Gone(1, kNow + 10 * kWait);
  door.Gone(1, kNow + 10 * kWait) /* ends once */;
  EXPECT_FALSE(LetIn(door, "10.0.0.1", 3, kNow + 10 * kWait + kMemory - Millis{1}));
  EXPECT_TRUE(LetIn(door, "10.0.0.1", 3, kNow + 10 * kWait + kMemory));
  EXPECT_FALSE(LetIn(door, "10.0.0.1", 4, kNow + 10 * kWait + kMemory));
}

TEST(Doorkeeper, AStrangerWhoseTimeIsOverIsToBeClosed) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(LetIn(door, "10.0.0.1", 1));
  EXPECT_TRUE(LetIn(door, "10.0.0.1", 2, kNow + Millis{1}));
  EXPECT_TRUE(LetIn(door, "10.0.0.2", 3));
  EXPECT_TRUE(door.Proved("ipv4:10.0.0.2:3", "ana"));
  EXPECT_TRUE(door.Overdue(kNow + kWait - Millis{1}).empty());
  EXPECT_EQ(door.Overdue(kNow + kWait), std::vector<int>{1});
  EXPECT_TRUE(door.Overdue(kNow + kWait).empty()) << "named once";
  EXPECT_EQ(door.Overdue(kNow + kWait + Millis{1}), std::vector<int>{2});
}

TEST(Doorkeeper, WhoIsShutOutIsAStrangerFromThenOn) {
  Doorkeeper door(kSmall);
  for (int port = 1; port <= 3; ++port) {
    ASSERT_TRUE(LetIn(door, "10.0.0.1", port));
    ASSERT_TRUE(door.Proved(Name(port), "ana"));
  }
  const BootTime later = kNow + 2 * kWait;
  for (int port = 1; port <= 3; ++port) door.Refused(Name(port), later);
  EXPECT_EQ(door.unproved(), 3u);
  EXPECT_FALSE(LetIn(door, "10.0.0.1", 4, later));
  // A stranger that calls again and again gets no more time.
  door.Refused(Name(1), later + kWait - Millis{1});
  EXPECT_TRUE(door.Overdue(later + kWait - Millis{1}).empty());
  EXPECT_EQ(door.Overdue(later + kWait), (std::vector<int>{1, 2, 3}));
  for (int port = 1; port <= 3; ++port) door.Gone(port, later + kWait);
  ASSERT_TRUE(LetIn(door, "10.0.0.2", 5, later + kWait));
  EXPECT_TRUE(door.Proved("ipv4:10.0.0.2:5", "ana")) << "none of them counts as hers";
}

TEST(Doorkeeper, APortThatComesAgainIsAnotherConnection) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 1), 7, kNow));
  EXPECT_FALSE(door.LetIn(From("10.0.0.1", 1), 8, kNow)) << "two that gRPC gives one name";
  EXPECT_TRUE(door.Proved(Name(1), "ana"));
  door.Gone(7, kNow);
  EXPECT_TRUE(door.LetIn(From("10.0.0.1", 1), 7, kNow + Millis{4'000}));
  EXPECT_EQ(door.unproved(), 1u);
  EXPECT_TRUE(door.Overdue(kNow + kWait).empty()) << "the time of the second one is not over";
  EXPECT_EQ(door.Overdue(kNow + Millis{4'000} + kWait), std::vector<int>{7});
}

TEST(Doorkeeper, ANetworkOfIpv6IsOneSource) {
  Doorkeeper door(kSmall);
  EXPECT_TRUE(LetIn(door, "2001:db8:0:1::1", 1));
  EXPECT_TRUE(LetIn(door, "2001:db8:0:1:ffff::2", 2));
  EXPECT_FALSE(LetIn(door, "2001:db8:0:1::3", 3));
  EXPECT_TRUE(LetIn(door, "2001:db8:0:2::3", 3));
}

TEST(Doorkeeper, FewDescriptorsAreNotAllForOne) {
  const DoorLimits plenty = LimitsWithin(100'000);
  EXPECT_EQ(plenty.of_source, DoorLimits{}.of_source);
  EXPECT_EQ(plenty.in_all, DoorLimits{}.in_all);
  EXPECT_EQ(plenty.of_identity, DoorLimits{}.of_identity);
  const DoorLimits few = LimitsWithin(400);
  EXPECT_EQ(few.of_source, 100u);
  EXPECT_EQ(few.in_all, 200u);
  EXPECT_EQ(few.of_identity, 100u);
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
