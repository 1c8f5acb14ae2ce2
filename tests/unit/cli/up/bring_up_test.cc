#include "cli/up/bring_up.h"

#include <gtest/gtest.h>

namespace launch::up {
namespace {

// Nobody listens on port 1.
Host Refusing(const std::string& name) { return {.name = name, .address = "127.0.0.1", .port = 1}; }

TEST(BringUp, WithoutAHeadTheOthersAreLookedAtAllTheSame) {
  HostSet set;
  set.hosts = {Refusing("head"), Refusing("gpu1")};
  set.head = "head";
  Contexts contexts("/nonexistent");
  const BroughtUp brought = BringUp(set, UpOptions(), contexts);
  EXPECT_FALSE(brought.controller);
  ASSERT_EQ(brought.hosts.size(), 2u);
  for (const HostResult& result : brought.hosts) {
    ASSERT_TRUE(result.error) << result.host.name;
    EXPECT_FALSE(result.reached);
    EXPECT_NE(result.error->message.find("ssh to 127.0.0.1:1"), std::string::npos)
        << result.error->message;
  }
}

TEST(TakeDown, SaysOfEachHostThatItWasNotReached) {
  HostSet set;
  set.hosts = {Refusing("head"), Refusing("gpu1")};
  set.head = "head";
  const auto results = TakeDown(set, UpOptions(), {.authority = "abc", .purge = true});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].host.name, "head");
  EXPECT_TRUE(results[0].error && results[1].error);
  EXPECT_FALSE(results[0].reached || results[1].reached);
}

}  // namespace
}  // namespace launch::up
