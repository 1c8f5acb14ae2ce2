#include "cli/up/upgrade.h"

#include <gtest/gtest.h>

namespace launch::up {
namespace {

TEST(Upgrade, OneMinorVersionAtATimeAndNeverBack) {
  EXPECT_TRUE(CheckUpgrade("0.1.0", "0.1.0"));
  EXPECT_TRUE(CheckUpgrade("0.1.0", "0.1.7"));
  EXPECT_TRUE(CheckUpgrade("0.1.9", "0.2.0"));
  EXPECT_FALSE(CheckUpgrade("0.2.0", "0.1.9"));
  EXPECT_FALSE(CheckUpgrade("0.1.1", "0.1.0"));
  EXPECT_FALSE(CheckUpgrade("0.1.0", "0.3.0"));
  EXPECT_FALSE(CheckUpgrade("0.9.0", "1.0.0"));
  EXPECT_FALSE(CheckUpgrade("0.1", "0.2.0"));
  EXPECT_FALSE(CheckUpgrade("", "0.2.0"));
}

TEST(Upgrade, ARefusalNamesTheNextStep) {
  const auto refused = CheckUpgrade("0.1.0", "0.3.0");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().hint.find("0.2 first"), std::string::npos) << refused.error().hint;
}

}  // namespace
}  // namespace launch::up
