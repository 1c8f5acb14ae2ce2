#include "common/file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
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

// Whoever made it needs no path for it: a shell that makes a directory, goes in and does it again.
TEST_F(PosixFiles, RemoveTreeTakesATreeOfAnyDepth) {
  // In memory, where a directory costs nothing; a disk may take minutes for as many.
  char name[] = "/dev/shm/launch-deep-XXXXXX";
  if (::mkdtemp(name) == nullptr) GTEST_SKIP() << "no /dev/shm here";
  UniqueFd at(::open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 4'000; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "d", 0700), 0) << i;
    if (i % 1000 == 0) {
      const UniqueFd file(::openat(at.get(), "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      ASSERT_TRUE(file);
    }
    at.Reset(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at) << i;
  }
  at.Reset();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto removed = files_.RemoveTree(name);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_NE(::access(name, F_OK), 0);
}

TEST_F(PosixFiles, RemoveTreeIsStoppedByNoModeInIt) {
  ASSERT_TRUE(files_.MakeDirs(root_ + "/gone/a/b/c/d"));
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(files_.MakeDirs(root_ + "/gone/a/many" + std::to_string(i) + "/x"));
  ASSERT_TRUE(files_.WriteDurable(root_ + "/gone/a/b/c/d/e", "x"));
  ASSERT_EQ(::mkfifo((root_ + "/gone/a/b/pipe").c_str(), 0600), 0);
  for (const char* closed : {"/gone/a/b/c/d", "/gone/a/b/c", "/gone/a/b", "/gone/a", "/gone"})
    ASSERT_EQ(::chmod((root_ + closed).c_str(), 0), 0);
  // Without root's rights a directory that may not be read is not entered.
  if (::geteuid() != 0) {
    for (const char* read : {"/gone", "/gone/a", "/gone/a/b", "/gone/a/b/c", "/gone/a/b/c/d"})
      ASSERT_EQ(::chmod((root_ + read).c_str(), 0500), 0);
  }
  const auto removed = files_.RemoveTree(root_ + "/gone");
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_TRUE(files_.List(root_)->empty());
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
