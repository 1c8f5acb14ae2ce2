// Without control groups: what `launch exec` left outside of its session is found by its variable.
#include "common/exec_mark.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "agent/runner/process.h"

namespace launch::agent {
namespace {

struct Marked : testing::Test {
  // A process with that variable and nothing else of an attempt, in a session of its own.
  explicit Marked(const std::string& mark = std::string(kExecMark) + "=/state/allocations/7.1") {
    int ready[2] = {};
    if (::pipe(ready) != 0) return;
    pid = ::fork();
    if (pid == 0) {
      std::string copy = mark;
      char* env[] = {copy.data(), nullptr};
      char program[] = "/bin/sh";
      char flag[] = "-c";
      char command[] = "echo up; exec sleep 600";
      char* argv[] = {program, flag, command, nullptr};
      ::setsid();
      ::dup2(ready[1], 1);
      ::execve(program, argv, env);
      ::_exit(127);
    }
    ::close(ready[1]);
    char up = 0;
    (void)!::read(ready[0], &up, 1);  // its environment is that of the program by now
    ::close(ready[0]);
  }
  ~Marked() override {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  bool IsFoundBy(const std::string& lock) const {
    const std::vector<int> found = FindOwn(lock, {});
    return std::find(found.begin(), found.end(), pid) != found.end();
  }
  int pid = 0;
};

TEST_F(Marked, IsFoundByTheAttemptThatItWasStartedBeside) {
  EXPECT_TRUE(IsFoundBy("/state/allocations/7.1/lock"));
}

TEST_F(Marked, IsOfNoOtherAttempt) {
  EXPECT_FALSE(IsFoundBy("/state/allocations/7.10/lock"));
  EXPECT_FALSE(IsFoundBy("/state/allocations/7/lock"));
  EXPECT_FALSE(IsFoundBy("/other/allocations/7.1/lock"));
}

// What a user pastes from `launch env` into a shell of his own.
TEST(Unmarked, ARanksVariablesAloneProveNothing) {
  struct Pasted : Marked {
    Pasted() : Marked("LAUNCH_JOB_ID=7") {}
    void TestBody() override {}
  } shell;
  EXPECT_FALSE(shell.IsFoundBy("/state/allocations/7.1/lock"));
}

}  // namespace
}  // namespace launch::agent
