#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/job_fields.h"
#include "cli/job_file_table.h"

namespace launch {
namespace {

TEST(JobFileDocument, HoldsTheTableOfTheFieldsThatAreRead) {
  const std::string path = std::string(LAUNCH_SOURCE_DIR) + "/docs/job-file.md";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find(JobFileTable()), std::string::npos)
      << "run: build/.../bin/job-file-doc docs/job-file.md";
}

TEST(JobFileDocument, ReplacesOnlyWhatStandsBetweenItsMarks) {
  const std::string document = "# Title\n" + std::string(kTableBegin) + "\nstale text\n" +
                               std::string(kTableEnd) + "\nend\n";
  const auto fresh = WithJobFileTable(document);
  ASSERT_TRUE(fresh);
  EXPECT_TRUE(fresh->starts_with("# Title\n"));
  EXPECT_TRUE(fresh->ends_with("\nend\n"));
  EXPECT_EQ(fresh->find("stale text"), std::string::npos);
  EXPECT_NE(fresh->find(JobFileTable()), std::string::npos);
  EXPECT_FALSE(WithJobFileTable("no marks"));
}

}  // namespace
}  // namespace launch
