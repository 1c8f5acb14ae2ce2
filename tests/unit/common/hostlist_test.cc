#include "common/hostlist.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

using Names = std::vector<std::string>;

TEST(Hostlist, ExpandsRangesAndKeepsPadding) {
  EXPECT_EQ(*ExpandHostlist("gpu[08-10,20],login1"),
            (Names{"gpu08", "gpu09", "gpu10", "gpu20", "login1"}));
  EXPECT_EQ(*ExpandHostlist("r[1-2]n[1-2]"), (Names{"r1n1", "r1n2", "r2n1", "r2n2"}));
}

TEST(Hostlist, CountsBeforeItExpands) {
  const auto bomb = ExpandHostlist("a[1-999999]b[1-999999]c[1-999999]");
  ASSERT_FALSE(bomb);
  EXPECT_NE(bomb.error().message.find("more than 10000 hosts"), std::string::npos);
  EXPECT_TRUE(ExpandHostlist("a[1-10000]"));
  EXPECT_FALSE(ExpandHostlist("a[1-10001]"));
}

TEST(Hostlist, NamesTheColumnOfAnError) {
  const auto error = ExpandHostlist("gpu[1-3").error();
  EXPECT_NE(error.message.find("column 4"), std::string::npos);
  for (const char* text :
       {"", ",", "a,,b", "a[", "a]", "a[]", "a[3-1]", "a[01-3]", "a[x]", "a b", "a;b"}) {
    EXPECT_FALSE(ExpandHostlist(text)) << text;
  }
}

TEST(Hostlist, FoldsInNaturalOrder) {
  EXPECT_EQ(FoldHostlist({"gpu02", "gpu01", "gpu03", "gpu07"}), "gpu[01-03,07]");
  EXPECT_EQ(FoldHostlist({"gpu9", "gpu10", "gpu11"}), "gpu[9-11]");
  EXPECT_EQ(FoldHostlist({"gpu09", "gpu10"}), "gpu[09-10]");
  EXPECT_EQ(FoldHostlist({"login", "gpu1"}), "gpu1,login");
  EXPECT_EQ(FoldHostlist({}), "");
}

TEST(Hostlist, FoldingAndExpandingAreInverse) {
  for (const Names& names : {Names{"a1", "a2", "a10", "b"}, Names{"n001", "n002", "n100"},
                             Names{"x-1.rack2", "x-2.rack2"}, Names{"gpu1", "gpu01"}}) {
    Names sorted = names;
    std::sort(sorted.begin(), sorted.end());
    Names back = *ExpandHostlist(FoldHostlist(names));
    std::sort(back.begin(), back.end());
    EXPECT_EQ(back, sorted) << FoldHostlist(names);
  }
}

}  // namespace
}  // namespace launch
