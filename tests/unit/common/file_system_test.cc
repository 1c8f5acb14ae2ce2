#include "common/file_system.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace launch {
namespace {

class PosixFiles : public testing::Test {
 protected:
  PosixFiles() {
    char name[] = "/tmp/launch-files-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~PosixFiles() override { (void)files_.RemoveTree(root_); }
  PosixFileSystem files_;
  std::string root_;
};

TEST_F(PosixFiles, ADurableWriteReplacesTheWholeFile) {
  ASSERT_TRUE(files_.WriteDurable(root_ + "/a", "first, longer"));
  ASSERT_TRUE(files_.WriteDurable(root_ + "/a", "second"));
  EXPECT_EQ(*files_.Read(root_ + "/a", 100), "second");
  EXPECT_EQ(*files_.List(root_), (std::vector<std::string>{"a"}));
}

TEST_F(PosixFiles, ReadRefusesMoreThanItsLimit) {
  ASSERT_TRUE(files_.WriteDurable(root_ + "/a", "12345"));
  EXPECT_TRUE(files_.Read(root_ + "/a", 5));
  EXPECT_FALSE(files_.Read(root_ + "/a", 4));
}

TEST_F(PosixFiles, RemoveTreeFollowsNoLink) {
  ASSERT_TRUE(files_.MakeDirs(root_ + "/keep/x"));
  ASSERT_TRUE(files_.MakeDirs(root_ + "/gone/y/z"));
  ASSERT_EQ(::symlink((root_ + "/keep").c_str(), (root_ + "/gone/y/link").c_str()), 0);
  ASSERT_TRUE(files_.RemoveTree(root_ + "/gone"));
  EXPECT_TRUE(files_.List(root_ + "/keep/x"));
  EXPECT_FALSE(files_.List(root_ + "/gone"));
  EXPECT_TRUE(files_.RemoveTree(root_ + "/gone"));
}

TEST_F(PosixFiles, ErrorsNameTheCallAndThePath) {
  const auto missing = files_.Read(root_ + "/none", 10);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message, "open " + root_ + "/none: No such file or directory");
  ASSERT_TRUE(files_.WriteDurable(root_ + "/file", ""));
  EXPECT_FALSE(files_.MakeDirs(root_ + "/file/sub"));
  EXPECT_FALSE(files_.WriteDurable(root_ + "/nodir/a", "x"));
}

}  // namespace
}  // namespace launch
