// A full disk below the state directory: refused loudly, and no exit code is lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/runner/kept_logs.h"
#include "agent/runner/log_reader.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{6}, {1}};

// The state directory on a small file system of its own.
class DiskFullTest : public testing::Test {
 protected:
  explicit DiskFullTest(const char* size = "size=4m,nr_inodes=512") : size_(size) {}
  void SetUp() override {
    const std::string state = bench_.options().state_dir;
    ASSERT_EQ(::mkdir(state.c_str(), 0700), 0);
    if (::mount("tmpfs", state.c_str(), "tmpfs", 0, size_) != 0) {
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

  // Until there is no inode left; how many files that took.
  int FillInodes() const {
    int files = 0;
    while (std::ofstream(Filler(files)).good()) ++files;
    return files;
  }
  void FreeInodes(int files) const {
    for (int i = 0; i < files; ++i) ::unlink(Filler(i).c_str());
  }
  std::string Filler(int i) const { return bench_.Path("state/filler-" + std::to_string(i)); }

  RunnerBench bench_;
  const char* const size_;
  bool mounted_ = false;
};

// Where ranks can print enough that the middle of their logs may go.
class NearlyFullTest : public DiskFullTest {
 protected:
  NearlyFullTest() : DiskFullTest("size=80m") {}
  void SetUp() override {
    DiskFullTest::SetUp();
    if (!mounted_) return;
    bench_.Kill();
    bench_.options().min_free_bytes = std::uint64_t{24} << 20;
    bench_.Open();
  }
  AllocationSpec Prints(const std::string& bytes, const Key& key = kKey) const {
    AllocationSpec spec = bench_.Spec(key, 1, {});
    spec.ranks[0].argv = {"/bin/sh", "-c",
                          "yes | head -c " + bytes + "; until [ -e ../go ]; do sleep 0.05; done"};
    return spec;
  }
  bool IsWhole(const Key& key) const {
    struct stat info {};
    return ::stat((bench_.RankPath(key, 0) + "/out").c_str(), &info) == 0 &&
           info.st_blocks * 512 >= info.st_size;
  }
};

// No agent: what one sweep does.
class SweepOfAFullDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "launch-disk-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    if (::mount("tmpfs", dir_.c_str(), "tmpfs", 0, "size=8m") != 0)
      GTEST_SKIP() << "mount: " << std::strerror(errno);
  }
  void TearDown() override {
    ::umount2(dir_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(dir_);
  }
  std::string Keep(const std::string& name, std::size_t mib, std::chrono::hours age) const {
    const std::string kept = dir_ + "/logs/" + name;
    std::filesystem::create_directories(kept + "/rank.0");
    std::ofstream(kept + "/rank.0/out") << std::string(mib << 20, 'x');
    std::filesystem::last_write_time(kept, std::filesystem::file_time_type::clock::now() - age);
    return kept + "/rank.0/out";
  }
  SweptLogs Sweep(std::uint64_t min_free_mib) {
    const LogSweep sweep{
        .state_dir = dir_, .keep = std::chrono::hours(9000), .min_free_bytes = min_free_mib << 20};
    SystemClock clock;
    return SweepKeptLogs(sweep, clock.WallNow(), clock.Now(), files_, {false});
  }

  PosixFileSystem files_;
  std::string dir_;
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

TEST_F(DiskFullTest, ForgetsNoLogThatItCannotKeep) {
  ASSERT_TRUE(bench_.Run(bench_.Spec(kKey, 1, {})));
  ASSERT_TRUE(bench_.AwaitEnd(kKey, 0));
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
  const std::string state = bench_.options().state_dir;
  const std::string directory = state + "/allocations/" + ToString(kKey);
  const std::string kept = state + "/logs/" + ToString(kKey) + "/rank.0/out";
  const int files = FillInodes();
  bench_.runner().Forget({kKey});
  EXPECT_TRUE(bench_.told().Await<told::NodeNotice>([&](const auto& told) {
    return told.notice.kind == "node.state_write_failed" &&
           told.notice.text.find(directory) != std::string::npos;
  }));
  EXPECT_NE(bench_.ReadFile(directory + "/rank.0/out").find("line 2 "), std::string::npos);
  const std::size_t length = bench_.ReadFile(directory + "/rank.0/out").size();
  // Whom nobody told of the order; the controller gives it again.
  bench_.Kill();
  ASSERT_EQ(bench_.Open().allocations.size(), 1u);
  bench_.runner().Forget({kKey});
  const int stops = bench_.told().Count<told::StopDone>();
  bench_.runner().Stop({.key = kKey, .cause = StopCause::kStale, .grace = Millis{0}});
  ASSERT_TRUE(RunnerBench::Eventually(
      [&] { return bench_.told().Count<told::StopDone>() > stops; }));  // behind that order
  EXPECT_EQ(bench_.ReadFile(directory + "/rank.0/out").size(), length);
  FreeInodes(files);
  EXPECT_TRUE(RunnerBench::Eventually([&] { return !std::filesystem::exists(directory); }));
  EXPECT_EQ(bench_.ReadFile(kept).size(), length);
}

TEST_F(DiskFullTest, RemovesTheOldestKeptLogsUntilThereIsRoom) {
  const std::string logs = bench_.options().state_dir + "/logs";
  const auto keep = [&](const Key& key, std::size_t bytes, std::chrono::hours age) {
    const std::string kept = logs + "/" + ToString(key);
    std::filesystem::create_directories(kept + "/rank.0");
    std::ofstream(kept + "/rank.0/out") << std::string(bytes, 'x');
    std::filesystem::last_write_time(kept, std::filesystem::file_time_type::clock::now() - age);
  };
  const Key oldest{{3}, {1}};
  const Key newest{{2}, {1}};
  keep(oldest, std::size_t{3} << 19, std::chrono::hours(9));
  keep(newest, std::size_t{1} << 16, std::chrono::hours(1));
  FillDisk();
  EXPECT_TRUE(bench_.told().Await<told::NodeNotice>([](const auto& told) {
    return told.notice.kind == "node.logs_removed" &&
           told.notice.text.find("attempt 3.1 were removed on 2") != std::string::npos &&
           told.notice.text.find("the disk was nearly full") != std::string::npos;
  }));
  LogReader reader(bench_.options().state_dir);
  const auto gone = reader.Read(oldest, 0, "out", 0, 1);
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message.find("were removed from this node on 2"), std::string::npos)
      << gone.error().message;
  EXPECT_TRUE(reader.Read(newest, 0, "out", 0, 1));
}

// Not every file system says at once what is free; neither does this one, as long as it is read.
TEST_F(SweepOfAFullDiskTest, NoMoreGoesThanMakesRoom) {
  const std::ifstream read1(Keep("3.1", 2, std::chrono::hours(9)));
  const std::ifstream read2(Keep("2.1", 2, std::chrono::hours(8)));
  const std::ifstream read3(Keep("1.1", 2, std::chrono::hours(7)));
  const SweptLogs swept = Sweep(5);
  ASSERT_EQ(swept.removed.size(), 2u);
  EXPECT_EQ(swept.removed[0].key, (Key{{3}, {1}}));
  EXPECT_TRUE(swept.room);
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/logs/1.1"));
}

TEST_F(SweepOfAFullDiskTest, WhatHasAnotherNameMakesNoRoom) {
  const std::string log = Keep("3.1", 4, std::chrono::hours(9));
  std::filesystem::create_hard_link(log, dir_ + "/saved");
  const SweptLogs swept = Sweep(6);
  EXPECT_TRUE(swept.removed.empty());
  EXPECT_FALSE(swept.room);
}

TEST_F(NearlyFullTest, KeptLogsGoBeforeThoseOfRunningRanks) {
  const std::string kept = bench_.options().state_dir + "/logs/2.1/rank.0";
  std::filesystem::create_directories(kept);
  std::ofstream(kept + "/out") << std::string(std::size_t{16} << 20, 'x');
  ASSERT_TRUE(bench_.Run(Prints("48M")));
  EXPECT_TRUE(bench_.told().Await<told::NodeNotice>(
      [](const auto& told) { return told.notice.kind == "node.logs_removed"; }));
  bench_.Touch("go");
  ASSERT_TRUE(bench_.AwaitEnd(kKey, 0));
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
  EXPECT_TRUE(IsWhole(kKey));
}

// A job that goes on for months, each attempt on the same node: it is not done, and nothing of it
// is forgotten.
TEST_F(NearlyFullTest, SoDoThoseOfEarlierAttemptsOfAJobThatGoesOn) {
  bench_.Touch("go");
  ASSERT_TRUE(bench_.Run(Prints("20M")));
  ASSERT_TRUE(bench_.AwaitEnd(kKey, 0));
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
  bench_.runner().NoteAcked({kKey, 0});
  const Key untold{{5}, {1}};  // its end is not acknowledged
  ASSERT_TRUE(bench_.Run(Prints("1M", untold)));
  ASSERT_TRUE(bench_.AwaitEnd(untold, 0));
  ASSERT_TRUE(bench_.Stop(untold, Millis{0}));
  ASSERT_TRUE(bench_.Run(Prints("1M", {{5}, {2}})));
  const Key later{kKey.job, {2}};
  ASSERT_TRUE(bench_.Run(Prints("36M", later)));
  EXPECT_TRUE(bench_.told().Await<told::NodeNotice>([](const auto& told) {
    return told.notice.kind == "node.logs_removed" &&
           told.notice.text.find("attempt 6.1 were removed on 2") != std::string::npos;
  }));
  ASSERT_TRUE(bench_.AwaitEnd(later, 0));
  EXPECT_TRUE(IsWhole(later));
  EXPECT_TRUE(IsWhole(untold));
  EXPECT_TRUE(std::filesystem::exists(bench_.RankPath(kKey, 0))) << "its records stay";
  LogReader reader(bench_.options().state_dir);
  const auto gone = reader.Read(kKey, 0, "out", 0, 1);
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message.find("were removed from this node on 2"), std::string::npos);
  EXPECT_TRUE(reader.Read(later, 0, "out", 0, 1));
}

TEST_F(NearlyFullTest, ThenTheMiddleOfTheirs) {
  ASSERT_TRUE(bench_.Run(Prints("64M")));
  EXPECT_TRUE(bench_.told().Await<told::NodeNotice>([](const auto& told) {
    return told.notice.kind == "rank.log_capped" &&
           told.notice.text.find("disk nearly full") != std::string::npos;
  }));
  bench_.Touch("go");
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
