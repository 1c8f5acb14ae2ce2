#include "cli/up/jump.h"

#include <gtest/gtest.h>

namespace launch::up {
namespace {

TEST(Jump, GivesSshTheConfigurationAndTheKeyAndNoTerminal) {
  EXPECT_EQ(JumpCommand({"gate"}, {}),
            "exec /bin/sh -c 'exec ssh -o BatchMode=yes -o ServerAliveInterval=10 -o "
            "ServerAliveCountMax=3 -o StrictHostKeyChecking=yes -W "
            "'\\''[%h]:%p'\\'' -- gate'");
  const std::string all =
      JumpCommand({"gate", "ana@in:2222"},
                  {.config = "/h/c", .key = "/h/k", .accept_new = true, .errors = "/h/e"});
  for (const char* part : {" -o StrictHostKeyChecking=accept-new", " -i /h/k", " -F /h/c",
                           " -J gate", " -p 2222", " -- ana@in", " 2>/h/e"})
    EXPECT_NE(all.find(part), std::string::npos) << part << " in " << all;
}

TEST(Jump, TakesAnAddressAsSshWritesIt) {
  EXPECT_NE(JumpCommand({"ana@[10.0.0.1]:2222"}, {}).find(" -p 2222 -W "), std::string::npos);
  EXPECT_NE(JumpCommand({"ana@[10.0.0.1]:2222"}, {}).find(" -- ana@10.0.0.1"), std::string::npos);
  const std::string v6 = JumpCommand({"[fe80::1]"}, {});
  EXPECT_NE(v6.find(" -- fe80::1"), std::string::npos) << v6;
  EXPECT_EQ(v6.find(" -p "), std::string::npos) << v6;
}

TEST(Jump, HidesThePercentOfAPathFromLibssh) {
  const std::string command = JumpCommand({"gate"}, {.config = "/h/a%h b"});
  EXPECT_NE(command.find("/h/a%%h b"), std::string::npos) << command;
}

}  // namespace
}  // namespace launch::up
