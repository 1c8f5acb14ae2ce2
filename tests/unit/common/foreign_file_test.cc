// Nothing that somebody puts in the place of a file keeps its reader, or fills its memory.
#include "common/foreign_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/first_line.h"

namespace launch {
namespace {

class ForeignFile : public testing::Test {
 protected:
  ForeignFile() {
    char name[] = "/tmp/launch-foreign-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~ForeignFile() override { std::filesystem::remove_all(root_); }
  std::string At(const std::string& name) const { return root_ + "/" + name; }
  std::string root_;
};

TEST_F(ForeignFile, IsReadUpToWhatWasAskedFor) {
  std::ofstream(At("a")) << "0123456789";
  EXPECT_EQ(ReadHead(At("a"), 4), "0123");
  EXPECT_EQ(ReadHead(At("a"), 400), "0123456789");
  EXPECT_EQ(*ReadAll(At("a"), 10), "0123456789");
  EXPECT_EQ(ReadAll(At("a"), 9).error().message, At("a") + " is larger than 9 bytes");
  const auto fd = OpenRegular(At("a"));
  ASSERT_TRUE(fd);
  EXPECT_EQ(ReadRange(fd->get(), 8, 5), "89");
  EXPECT_EQ(ReadRange(fd->get(), 11, 5), "");
  // A terabyte of nothing, of which no more than a piece is ever held.
  ASSERT_EQ(::truncate(At("a").c_str(), off_t{1} << 40), 0);
  EXPECT_EQ(ReadHead(At("a"), 100'000).size(), 100'000u);
  EXPECT_FALSE(ReadAll(At("a"), 100'000));
  EXPECT_EQ(ReadHead(At("none"), 10), "");
  EXPECT_EQ(ReadAll(At("none"), 10).error().code, ErrorCode::kNotFound);
}

TEST_F(ForeignFile, SaysOneLine) {
  std::ofstream(At("a")) << "one \r\ntwo\n";
  EXPECT_EQ(FirstLine(At("a")), "one \r");
  std::ofstream(At("a")) << "open";
  EXPECT_EQ(FirstLine(At("a")), "open");
  std::ofstream(At("a")) << "\ntwo";
  EXPECT_EQ(FirstLine(At("a")), "");
  EXPECT_EQ(FirstLine(At("none")), "");
  EXPECT_EQ(FirstLine(root_), "");
  EXPECT_EQ(KernelBootId().size(), 36u);
}

TEST_F(ForeignFile, IsAFileAndNothingThatWaits) {
  ASSERT_EQ(::mkfifo(At("pipe").c_str(), 0600), 0);
  for (const std::string& path : {At("pipe"), root_, std::string("/dev/zero")}) {
    const auto fd = OpenRegular(path);
    ASSERT_FALSE(fd) << path;
    EXPECT_EQ(fd.error().message, path + " is not a regular file");
    EXPECT_EQ(ReadHead(path, 10), "");
  }
  EXPECT_NE(ReadHead("/proc/self/stat", 4096), "") << "the kernel's files are regular ones";
}

TEST_F(ForeignFile, IsNoOtherNameOfAnothersFileWhereThatCounts) {
  std::ofstream(At("a")) << "x";
  ASSERT_EQ(::symlink(At("a").c_str(), At("link").c_str()), 0);
  EXPECT_EQ(ReadHead(At("a"), 1, Links::kRefuse), "x");
  EXPECT_EQ(ReadHead(At("link"), 1), "x");
  EXPECT_EQ(ReadHead(At("link"), 1, Links::kRefuse), "");
  ASSERT_EQ(::link(At("a").c_str(), At("twin").c_str()), 0);
  EXPECT_EQ(ReadHead(At("twin"), 1), "x");
  EXPECT_EQ(ReadHead(At("twin"), 1, Links::kRefuse), "");
}

// Who has a lease on his file is asked to give it up first, and may take 45 s.
TEST_F(ForeignFile, IsNotWaitedForWhereSomebodyHoldsALease) {
  std::ofstream(At("a")) << "x";
  const UniqueFd own(::open(At("a").c_str(), O_RDWR | O_CLOEXEC));
  ::signal(SIGIO, SIG_IGN);
  if (::fcntl(own.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here";
  EXPECT_FALSE(OpenRegular(At("a")));
}

}  // namespace
}  // namespace launch
