// Where real Python processes say they stand; skipped where there is no python3.
#include "agent/runner/rank_stacks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

class Stacks : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stacks.XXXXXX";
    dir_ = ::mkdtemp(name);
    std::filesystem::create_directories(dir_ + "/hook");
    std::ofstream(dir_ + "/hook/sitecustomize.py") << RankHook();
  }
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(dir_);
  }
  // `python3 FLAG -c PROGRAM`; returns once the program wrote `ready`.
  void Run(const std::string& program, const char* flag = "-B") {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::setenv("PYTHONPATH", (dir_ + "/hook").c_str(), 1);
      ::setenv("LAUNCH_STACKS", File().c_str(), 1);
      ::setenv("RANK", "7", 1);
      if (::chdir(dir_.c_str()) != 0) ::_exit(126);
      ::execlp("python3", "python3", flag, "-c", program.c_str(), nullptr);
      ::_exit(127);
    }
    const bool ready = RunnerBench::Eventually([&] {
      return std::filesystem::exists(dir_ + "/ready") || ::waitpid(pid_, nullptr, WNOHANG) == pid_;
    });
    ASSERT_TRUE(ready);
    if (::kill(pid_, 0) != 0) {
      pid_ = -1;
      GTEST_SKIP() << "no python3 here that can run this";
    }
  }
  RankStacks Collect(StackTools tools = {}) const {
    return CollectStacks({Key{JobId{1}, Attempt{1}}, 0, pid_, File()}, tools);
  }
  std::string File() const { return dir_ + "/stacks"; }
  static bool Names(const ProcessStack& stack, const std::string& function) {
    for (const StackFrame& frame : stack.frames)
      if (frame.function == function) return true;
    return false;
  }

  std::string dir_;
  pid_t pid_ = -1;
};

TEST_F(Stacks, AProcessAndItsForkedWorkerSayWhereTheyStand) {
  Run(R"(
import os, time
def worker():
    time.sleep(60)
def trainer():
    os.wait()
if os.fork() == 0:
    worker()
time.sleep(0.2)
open('ready', 'w').close()
trainer()
)");
  const RankStacks stacks = Collect();
  ASSERT_EQ(stacks.processes.size(), 2u);
  EXPECT_EQ(stacks.processes[0].source, "faulthandler");
  EXPECT_TRUE(Names(stacks.processes[0], "trainer"));
  EXPECT_TRUE(Names(stacks.processes[1], "worker"));
  EXPECT_EQ(stacks.processes[0].rank, 7);
  EXPECT_EQ(stacks.processes[0].state, "S");
  EXPECT_TRUE(Names(Collect().processes[0], "trainer")) << "and once more";
}

TEST_F(Stacks, WithoutTheHookNothingIsSentAndTheKernelSpeaks) {
  Run("import time\nopen('ready', 'w').close()\ntime.sleep(60)", "-S");
  int asked = 0;
  const AskPySpy py_spy = [&](std::int64_t, const auto&) -> std::optional<std::string> {
    ++asked;
    return "Thread 1 (idle): \"MainThread\"\n    nap (x.py:3)\n";
  };
  const RankStacks stacks = Collect({.py_spy = py_spy});
  ASSERT_EQ(stacks.processes.size(), 1u);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(stacks.processes[0].source, "py-spy");
  EXPECT_TRUE(Names(stacks.processes[0], "nap"));
  RankStacks kernel = Collect();
  EXPECT_TRUE(kernel.processes[0].frames.empty());
  // "ready" is made just before it sleeps: on a busy machine it may still be on its way there.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (kernel.processes[0].syscall.empty() && std::chrono::steady_clock::now() < end) {
    kernel = Collect();
  }
  EXPECT_NE(kernel.processes[0].syscall, "");
  EXPECT_EQ(::kill(pid_, 0), 0) << "it lives";
}

TEST_F(Stacks, NothingIsAskedOfAProcessOfAnotherAccountThanTheJobs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: its process has another account";
  Run("import os, time\nos.chmod('.', 0o777)\nos.setuid(1300000000)\n"
      "open('ready', 'w').close()\ntime.sleep(60)",
      "-S");
  std::vector<std::string> asked_as;
  const AskPySpy py_spy = [&](std::int64_t, const auto& account) -> std::optional<std::string> {
    asked_as.push_back(account ? account->name : "");
    return std::nullopt;
  };
  const auto collect = [&](const std::string& name, std::uint32_t uid) {
    LocalAccount account{.name = name, .uid = uid, .gid = uid, .groups = {}, .home = "/"};
    const StacksWish wish{Key{JobId{1}, Attempt{1}}, 0, pid_, File(), account};
    return CollectStacks(wish, {.py_spy = py_spy}).processes.size();
  };
  EXPECT_EQ(collect("ben", 1'300'000'001), 1u);
  EXPECT_TRUE(asked_as.empty());
  EXPECT_EQ(collect("ana", 1'300'000'000), 1u);
  EXPECT_EQ(asked_as, std::vector<std::string>{"ana"});
}

TEST_F(Stacks, AHandlerOfTheTrainersOwnIsKept) {
  Run(R"(
import signal, time
signal.signal(59, lambda *_: open('mine', 'w').close())
open('ready', 'w').close()
while True: time.sleep(0.05)
)");
  (void)Collect({.answer = Millis{300}});
  ::kill(pid_, 59);
  EXPECT_TRUE(RunnerBench::Eventually([&] { return std::filesystem::exists(dir_ + "/mine"); }));
}

TEST_F(Stacks, OneThatIsStoppedIsNotAsked) {
  Run("import time\nopen('ready', 'w').close()\ntime.sleep(60)");
  ::kill(pid_, SIGSTOP);
  ASSERT_TRUE(RunnerBench::Eventually([&] { return Collect().processes.at(0).state == "T"; }));
  EXPECT_TRUE(Collect().processes[0].frames.empty());
  ::kill(pid_, SIGCONT);
}

TEST_F(Stacks, AProcessThatIsGoneIsSaidToBe) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const RankStacks stacks = CollectStacks({Key{}, 0, gone, File()}, {});
  EXPECT_TRUE(stacks.processes.empty());
  EXPECT_EQ(stacks.why, "its processes are gone");
}

}  // namespace
}  // namespace launch::agent
