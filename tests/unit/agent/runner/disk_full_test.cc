// A full disk below the state directory: refused loudly, and no exit code is lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{6}, {1}};

// The state directory on a small file system of its own.
class DiskFullTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string state = bench_.options().state_dir;
    ASSERT_EQ(::mkdir(state.c_str(), 0700), 0);
    if (::mount("tmpfs", state.c_str(), "tmpfs", 0, "size=4m") != 0) {
      GTEST_SKIP() << "mount: " << std::strerror(errno);
    }
    mounted_ = true;
    bench_.options().min_free_bytes = std::uint64_t{1} << 20;
    bench_.options().reserve_bytes = std::uint64_t{1} << 18;
    bench_.Open();
  }
  void TearDown() override {
    if (!mounted_) return;
    ::unlink((bench_.options().state_dir + "/ballast").c_str());
    (void)bench_.Stop(kKey, Millis{0});
    bench_.Kill();
    ::umount2(bench_.options().state_dir.c_str(), MNT_DETACH);
  }
  void FillDisk() {
    const int fd =
        ::open((bench_.options().state_dir + "/ballast").c_str(), O_WRONLY | O_CREAT, 0600);
    const std::string block(4096, 'x');
    while (::write(fd, block.data(), block.size()) > 0) {
    }
    ::close(fd);
  }

  RunnerBench bench_;
  bool mounted_ = false;
};

TEST_F(DiskFullTest, WritesTheExitRecordIntoTheReservedBytes) {
  const auto started =
      bench_.Run(bench_.Spec(kKey, 1, {"--exit", "33", "--flood", "64", "--lines", "1"}));
  ASSERT_TRUE(started);
  // The flood fills the disk: the rank's own write fails (exit 96), its record does not.
  const auto report = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cause, ExitCause(Exited{96}));
  EXPECT_GT(report->log_end, std::uint64_t{1} << 20);
}

TEST_F(DiskFullTest, StopsARankAndSavesAFenceOutOfTheReserve) {
  ASSERT_TRUE(bench_.Run(bench_.Spec(kKey, 1, {"--sleep-until", "go"})));
  FillDisk();
  EXPECT_TRUE(bench_.runner().SaveFence({1, 1, 9}));
  const auto stopped = bench_.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  const std::string allocation = bench_.options().state_dir + "/allocations/" + ToString(kKey);
  EXPECT_EQ(::access((allocation + "/tombstone").c_str(), F_OK), 0);
  EXPECT_EQ(::access((allocation + "/released").c_str(), F_OK), 0);
  EXPECT_TRUE(bench_.told().Await<told::NodeNotice>(
      [](const auto& told) { return told.notice.kind == "node.state_disk_full"; }));
  EXPECT_EQ(bench_.told().Count<told::AcceptDone>(), 1);
}

TEST_F(DiskFullTest, MakesTheReserveAgainWhenThereIsRoom) {
  const std::string reserve = bench_.options().state_dir + "/reserve";
  EXPECT_EQ(::access(reserve.c_str(), F_OK), 0);
  ASSERT_TRUE(bench_.Run(bench_.Spec(kKey, 1, {"--sleep-until", "go"})));
  FillDisk();
  ASSERT_TRUE(bench_.runner().SaveFence({1, 1, 9}));
  EXPECT_NE(::access(reserve.c_str(), F_OK), 0);
  ::unlink((bench_.options().state_dir + "/ballast").c_str());
  EXPECT_TRUE(RunnerBench::Eventually([&] { return ::access(reserve.c_str(), F_OK) == 0; }));
}

TEST_F(DiskFullTest, RefusesANewAllocation) {
  FillDisk();
  const auto accepted = bench_.Accept(bench_.Spec(kKey, 1, {}));
  ASSERT_TRUE(accepted);
  ASSERT_FALSE(accepted->ports);
  EXPECT_EQ(accepted->ports.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(accepted->ports.error().message.find(bench_.options().state_dir), std::string::npos);
}

}  // namespace
}  // namespace launch::agent
