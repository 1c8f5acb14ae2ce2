#include "common/quoted.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(Quoted, EscapesWhatWouldEndTheTextOrHideInIt) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted(R"(say "hi" \ bye)"), R"("say \"hi\" \\ bye")");
  EXPECT_EQ(Quoted("a\nb\x1b[0m\x7f"), R"("a\nb\u001b[0m\u007f")");
  EXPECT_EQ(Quoted("grün"), "\"grün\"");
}

}  // namespace
}  // namespace launch
