#include "common/text.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Split, KeepsEmptyPartsButNoneBehindALastSeparator) {
  EXPECT_EQ(Split("", ','), Parts{});
  EXPECT_EQ(Split("a", ','), Parts{"a"});
  EXPECT_EQ(Split("a,,b", ','), (Parts{"a", "", "b"}));
  EXPECT_EQ(Split("a,b,", ','), (Parts{"a", "b"}));
  EXPECT_EQ(Split("a,,", ','), (Parts{"a", ""}));
  EXPECT_EQ(Split(",a", ','), (Parts{"", "a"}));
  EXPECT_EQ(Split(",", ','), Parts{""});
  EXPECT_EQ(Split("one\r\ntwo", '\n'), (Parts{"one\r", "two"}));
}

}  // namespace
}  // namespace launch
