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
  EXPECT_TRUE(line.starts_with("exec sudo -n -H /bin/sh -c 'printf "));
  EXPECT_EQ(line.find_first_of("!\n\t\x01\xff"), std::string::npos);
  EXPECT_TRUE(line.ends_with("'echo \\0047a\\0047 \\0134 \\0041\\0012\\0011\\0001\\0377'")) << line;
}

RemoteAnswer Within(const std::string& before, const std::string& command) {
  const std::string text = Out("/bin/sh", command);
  const std::size_t from_errors = text.rfind("@launch-answer@");  // of stderr, joined here
  RemoteAnswer all;
  all.output = before + text.substr(from_errors);
  return AnswerWithin(all);
}

TEST(LoginShell, OnlyWhatTheCommandPrintedIsItsAnswer) {
  const RemoteAnswer answer = Within("Welcome\nuid=7\nno line end", "printf ' a@b\\n'; exit 3");
  EXPECT_EQ(answer.output, " a@b\n");
  EXPECT_EQ(answer.code, 3);
  RemoteAnswer echoed;
  echoed.code = 1;
  echoed.output = "runs " + ForAnyLoginShell("true", false) + "\n";
  EXPECT_TRUE(AnswerWithin(echoed).output.empty()) << "the line itself has no mark";
}

TEST(LoginShell, ACommandThatNeverRanHasNoAnswer) {
  const RemoteAnswer refused = AnswerWithin({.code = 1, .output = "not available\n", .errors = ""});
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(refused.output.empty());
  EXPECT_EQ(refused.errors, "not available");
  const RemoteAnswer forced = AnswerWithin({.code = 0, .output = "menu\n", .errors = ""});
  EXPECT_NE(forced.code, 0);
  EXPECT_EQ(forced.errors, "its login shell did not run the command, and printed: menu");
}

TEST(LoginShell, WhatWasPrintedAfterwardsOrOnStderrBeforeIsLeftOut) {
  const RemoteAnswer answer = AnswerWithin({.code = 0,
                                            .output = "@launch-answer@one\n@launch-answer:2@bye\n",
                                            .errors = "quota\n@launch-answer@no such file\n"});
  EXPECT_EQ(answer.output, "one\n");
  EXPECT_EQ(answer.code, 2);
  EXPECT_EQ(answer.errors, "no such file\n");
}

}  // namespace
}  // namespace launch::up
