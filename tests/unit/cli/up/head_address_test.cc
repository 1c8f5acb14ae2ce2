#include "cli/up/head_address.h"

#include <gtest/gtest.h>

namespace launch::up {
namespace {

TEST(HeadAddress, AnAddressOfIpV6StandsInBrackets) {
  EXPECT_EQ(WithPort("gpu01", 7470), "gpu01:7470");
  EXPECT_EQ(WithPort("10.0.0.9", 7470), "10.0.0.9:7470");
  EXPECT_EQ(WithPort("fd00::9", 7470), "[fd00::9]:7470");
}

TEST(HeadAddress, SaysWhichFamiliesAnAddressHas) {
  EXPECT_EQ(MustResolve("127.0.0.1").value(), Families::kV4);
  EXPECT_EQ(MustResolve("::1").value(), Families::kOnlyV6);
}

}  // namespace
}  // namespace launch::up
