#include "cli/up/jump.h"

#include <gtest/gtest.h>

namespace launch::up {
namespace {

TEST(Jump, GivesSshTheConfigurationAndTheKeyAndNoTerminal) {
  EXPECT_EQ(JumpCommand({"gate"}, {}),
            "exec /bin/sh -c 'exec ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -W "
            "'\\''[%h]:%p'\\'' -- gate'");
  const std::string all =
      JumpCommand({"gate", "ana@in:2222"},
                  {.config = "/h/c", .key = "/h/k", .accept_new = true, .errors = "/h/e"});
  for (const char* part : {" -o StrictHostKeyChecking=accept-new", " -i /h/k", " -F /h/c",
                           " -J gate", " -p 2222", " -- ana@in", " 2>/h/e"})
    EXPECT_NE(all.find(part), std::string::npos) << part << " in " << all;
}

TEST(Jump, HidesThePercentOfAPathFromLibssh) {
  const std::string command = JumpCommand({"gate"}, {.config = "/h/a%h b"});
  EXPECT_NE(command.find("/h/a%%h b"), std::string::npos) << command;
}

}  // namespace
}  // namespace launch::up
