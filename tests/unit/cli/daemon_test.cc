#include "cli/daemon.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace launch {
namespace {

class Daemon : public testing::Test {
 protected:
  Daemon() : dir_(testing::TempDir() + "/daemon-" + std::to_string(getpid())) {
    std::filesystem::create_directories(dir_);
  }
  ~Daemon() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }

 private:
  std::string dir_;
};

TEST_F(Daemon, IsKnownByItsPidFileUntilItIsStopped) {
  ASSERT_FALSE(LiveDaemon(Path("pid")));
  const auto record = StartDaemon({"/bin/sleep", "600"}, Path("log"), Path("pid"));
  ASSERT_TRUE(record) << FormatError(record.error());
  const auto live = LiveDaemon(Path("pid"));
  ASSERT_TRUE(live);
  EXPECT_EQ(live->pid, record->pid);
  EXPECT_EQ(getsid(static_cast<pid_t>(record->pid)), record->pid);  // its own session
  ASSERT_TRUE(StopDaemon(Path("pid"), Millis(5000)));
  EXPECT_FALSE(LiveDaemon(Path("pid")));
  EXPECT_FALSE(std::filesystem::exists(Path("pid")));
}

TEST_F(Daemon, ThatIgnoresTheSignalIsKilled) {
  const auto record = StartDaemon(
      {"/bin/bash", "-c", "trap '' TERM; echo ready; while :; do sleep 600 & wait $!; done"},
      Path("log"), Path("pid"));
  ASSERT_TRUE(record);
  while (TailOf(Path("log"), 100).empty()) usleep(1000);  // the trap must stand first
  ASSERT_TRUE(StopDaemon(Path("pid"), Millis(50)));
  EXPECT_FALSE(LiveDaemon(Path("pid")));
}

TEST_F(Daemon, WithTheNumberOfAnotherIsNeverTouched) {
  // Our own pid with another start time: what a pid file says after the number was given away.
  std::ofstream(Path("pid")) << getpid() << " 1 boot\n";
  EXPECT_FALSE(LiveDaemon(Path("pid")));
  EXPECT_TRUE(StopDaemon(Path("pid"), Millis(10)));
}

TEST_F(Daemon, RunToEndGivesInputAndTakesOutputAndCode) {
  const auto finished = RunToEnd({"/bin/bash", "-c", "read line; echo got $line; exit 3"},
                                 "secret\n", Millis(10'000));
  ASSERT_TRUE(finished) << FormatError(finished.error());
  EXPECT_EQ(finished->code, 3);
  EXPECT_EQ(finished->output, "got secret\n");
}

TEST_F(Daemon, RunToEndFeedsWhatIsLargerThanAPipeAndKeepsTheStreamsApart) {
  const std::string input(3 << 20, 'x');
  const auto finished =
      RunToEnd({"/bin/sh", "-c", "echo no >&2; wc -c; kill -9 $$"}, input, Millis(20'000));
  ASSERT_TRUE(finished) << FormatError(finished.error());
  EXPECT_EQ(finished->output, "3145728\n");
  EXPECT_EQ(finished->errors, "no\n");
  EXPECT_EQ(finished->code, 128 + 9);
}

TEST_F(Daemon, RunToEndOutlivesAProgramThatReadsNothing) {
  const auto finished =
      RunToEnd({"/bin/sh", "-c", "exit 4"}, std::string(3 << 20, 'x'), Millis(20'000));
  ASSERT_TRUE(finished) << FormatError(finished.error());
  EXPECT_EQ(finished->code, 4);
}

TEST_F(Daemon, RunToEndEndsWhatHangs) {
  const auto finished = RunToEnd({"/bin/sleep", "600"}, "", Millis(50));
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(Daemon, AProgramThatIsNotThereIsAnError) {
  EXPECT_FALSE(StartDaemon({Path("nothing")}, Path("log"), Path("pid")));
  EXPECT_FALSE(ProgramBeside("no-such-program"));
}

}  // namespace
}  // namespace launch
