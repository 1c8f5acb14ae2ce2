#include "cli/copy_files.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(CopyFiles, APathOfAJobIsANumberOrAnElementBeforeAColon) {
  EXPECT_EQ(ParseJobPath("12:out/model.pt"), (JobPath{"12", "out/model.pt"}));
  EXPECT_EQ(ParseJobPath("17_3:/abs:olute"), (JobPath{"17_3", "/abs:olute"}));
  EXPECT_EQ(ParseJobPath("12:"), (JobPath{"12", "."}));
  for (const char* here : {"out", "./12:out", "a:b", ":x", "_3:x", "12", ""}) {
    EXPECT_FALSE(ParseJobPath(here)) << here;
  }
}

}  // namespace
}  // namespace launch
