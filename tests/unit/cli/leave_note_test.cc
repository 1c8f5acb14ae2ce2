#include "cli/leave_note.h"

#include <gtest/gtest.h>

#include <csignal>

namespace launch {
namespace {

TEST(LeaveNoteDeathTest, IsSaidAtAnInterrupt) {
  EXPECT_EXIT(
      {
        const LeaveNote note("job 7 goes on");
        std::raise(SIGINT);
      },
      testing::ExitedWithCode(130), "job 7 goes on\n");
}

TEST(LeaveNoteDeathTest, OfNobodyWhoIgnoresInterrupts) {
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_IGN);
        const LeaveNote note("job 7 goes on");
        std::raise(SIGINT);
        std::_Exit(3);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace launch
