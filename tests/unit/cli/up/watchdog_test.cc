#include "cli/up/watchdog.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "common/unique_fd.h"

namespace launch::up {
namespace {

class WatchdogTest : public testing::Test {
 protected:
  WatchdogTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    ours_.Reset(pair[0]);
    theirs_.Reset(pair[1]);
  }
  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST_F(WatchdogTest, EndsAReadThatNobodyAnswers) {
  Watchdog watchdog(ours_.get());
  watchdog.Begin(Millis{20});
  char byte = 0;
  EXPECT_EQ(::read(ours_.get(), &byte, 1), 0) << "without it this waits for ever";
  EXPECT_TRUE(watchdog.Fired());
}

TEST_F(WatchdogTest, TouchesNothingThatEndedInTime) {
  {
    Watchdog watchdog(ours_.get());
    watchdog.Begin(Millis{3'600'000});
    watchdog.End();
    watchdog.Begin(Millis{3'600'000});
    EXPECT_FALSE(watchdog.Fired());
  }
  EXPECT_EQ(::write(theirs_.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(ours_.get(), &byte, 1), 1);
}

}  // namespace
}  // namespace launch::up
