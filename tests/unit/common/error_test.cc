#include "common/error.h"

#include <gtest/gtest.h>

#include "common/ids.h"
#include "common/launch.h"
#include "common/mailbox.h"
#include "common/view.h"

namespace launch {
namespace {

TEST(Error, NearestNameIsOfferedOnlyWhenItIsNear) {
  const std::vector<std::string> names = {"nodes", "gpus", "batch"};
  EXPECT_EQ(NearestName("node", names), "nodes");
  EXPECT_EQ(NearestName("gpsu", {"gpus"}), "gpus");  // neighbours swapped: one slip
  EXPECT_EQ(NearestName("gqsu", {"gpus"}), "");      // two edits of four letters
  EXPECT_EQ(NearestName("completely", names), "");
}

TEST(Error, PrintsPlaceMessageAndHint) {
  const Error error{ErrorCode::kInvalidArgument, "bad", "do this", Where{"j.yaml", 3, 7, "a.b"}};
  EXPECT_EQ(FormatError(error), "j.yaml:3:7: a.b: bad\n  hint: do this");
  EXPECT_EQ(FormatError({ErrorCode::kInvalidArgument, "a.b: bad", "", Where{"", 0, 0, "a.b"}}),
            "a.b: bad");
}

TEST(Names, RefuseWhatAPathOrAFlagCouldTake) {
  EXPECT_TRUE(IsValidName("gpu-01.rack_2"));
  for (const char* bad : {"", "-x", ".", "..", "a/b", "a b", "a\n"})
    EXPECT_FALSE(IsValidName(bad)) << bad;
  EXPECT_FALSE(IsValidName(std::string(64, 'a')));
}

TEST(ExitCause, BecomesAShellCodeAndASentence) {
  EXPECT_EQ(ShellCode(Exited{33}), 33);
  EXPECT_EQ(ShellCode(Signalled{9, false}), 137);
  EXPECT_EQ(Describe(Signalled{9, false}), "signal 9 (SIGKILL)");
  EXPECT_EQ(Describe(UnknownEnd{"node rebooted"}), "unknown (node rebooted)");
}

TEST(JobStates, HaveSlurmsCodes) {
  EXPECT_EQ(StateCode(JobState::kPending), "PD");
  EXPECT_TRUE(IsTerminal(JobState::kTimeout));
  EXPECT_FALSE(IsTerminal(JobState::kRequeued));
}

TEST(Mailbox, KeepsOrderAndRefusesWhenFull) {
  Mailbox<int> mailbox(2);
  EXPECT_TRUE(mailbox.Push(1));
  EXPECT_TRUE(mailbox.Push(2));
  EXPECT_FALSE(mailbox.Push(3));
  mailbox.PushAlways(4);
  EXPECT_EQ(mailbox.TakeBatch(2, 0), (std::vector<int>{1, 2}));
  EXPECT_EQ(mailbox.TakeBatch(9, 0), (std::vector<int>{4}));
  EXPECT_TRUE(mailbox.TakeBatch(9, 0).empty());
}

}  // namespace
}  // namespace launch
