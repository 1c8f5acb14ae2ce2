#include "cli/up/login_shell.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/quoted.h"

namespace launch::up {
namespace {

// What a shell makes of the line that sshd would hand it.
std::string Out(const std::string& shell, const std::string& command) {
  const std::string line = shell + " -c " + ShellQuote(ForAnyLoginShell(command, false)) + " 2>&1";
  std::string text;
  FILE* pipe = ::popen(line.c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  ::pclose(pipe);
  return text;
}

TEST(LoginShell, EveryOneRunsTheSameCommand) {
  const std::string command =
      "a='it'\\''s'; b=\"$(printf 'two\\n  lines')\"\n"
      "echo \"$a!\" \"$b\" '\\' \"\\\\x\" {1,2} ~ && [ 1 = 1 ] || echo no # \xc3\xbc\n"
      "case x in x) echo \"%s %b\" ;; esac";
  const std::string right = Out("/bin/sh", command);
  EXPECT_NE(right.find("it's! two\n  lines \\"), std::string::npos) << right;
  EXPECT_NE(right.find("%s %b"), std::string::npos) << right;
  int tried = 0;
  for (const char* shell :
       {"/bin/dash", "/bin/bash", "/usr/bin/tcsh", "/usr/bin/fish", "/usr/bin/zsh", "/bin/ksh"}) {
    if (::access(shell, X_OK) != 0) continue;
    ++tried;
    EXPECT_EQ(Out(shell, command), right) << shell;
  }
  EXPECT_GE(tried, 2) << "at least dash and bash are on every machine that builds this";
}

TEST(LoginShell, NothingInItNeedsAnotherQuote) {
  const std::string line = ForAnyLoginShell("echo 'a' \\ !\n\t\x01\xff", true);
  EXPECT_TRUE(line.starts_with("exec sudo -n -H /bin/sh -c 'eval "));
  EXPECT_EQ(line.find_first_of("!\n\t\x01\xff"), std::string::npos);
  EXPECT_TRUE(line.ends_with("'echo \\0047a\\0047 \\0134 \\0041\\0012\\0011\\0001\\0377'")) << line;
}

}  // namespace
}  // namespace launch::up
