// Stops of ranks whose own process is a shell or a launcher, with the trainer below it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{7}, {1}};
constexpr Millis kHour{3'600'000};

// A trainer in bash: `on` are its traps. It waits in short steps, for bash runs a trap only then.
std::string Trainer(const std::string& on) {
  return "bash -c '" + on + "; echo up >>up; while :; do sleep 0.02; done'";
}

// Takes longer than it takes a stop to come by.
std::string Saves(const std::string& signal) {
  return R"(trap "echo )" + signal + R"( >>got; sleep 0.5; echo )" + signal +
         R"( >>saved; exit 0" )" + signal;
}

class StopTest : public ::testing::Test {
 protected:
  // The text as bash runs that of a job, in a directory of its own; returns when `trainers` are up.
  AllocationSpec Spec(const std::string& script) {
    AllocationSpec spec = bench_.Spec(kKey, 1, {});
    spec.ranks[0].argv = {"/bin/bash", "--norc", "-c", script};
    return spec;
  }
  void Run(const AllocationSpec& spec, std::size_t trainers = 1) {
    bench_.Open();
    const auto started = bench_.Run(spec);
    ASSERT_TRUE(started && !started->failed);
    ASSERT_TRUE(RunnerBench::Eventually([&] { return Lines("up").size() == trainers; }));
  }
  std::vector<std::string> Lines(const std::string& name) const {
    std::ifstream in(bench_.Path("work/" + name));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  ExitCause EndOfRank() {
    const auto report = bench_.AwaitEnd(kKey, 0);
    return report ? report->cause : ExitCause(UnknownEnd{});
  }

  RunnerBench bench_;
};

using Words = std::vector<std::string>;

TEST_F(StopTest, WhatAShellStartedHasTheGraceThatTheShellDidNotNeed) {
  Run(Spec("echo begin\n" + Trainer(Saves("TERM")) + "\necho end"));
  const auto stopped = bench_.Stop(kKey, kHour);
  ASSERT_TRUE(stopped) << "and the grace ends with it";
  EXPECT_TRUE(stopped->held.empty());
  EXPECT_EQ(EndOfRank(), ExitCause(Signalled{SIGTERM, false}));
  EXPECT_EQ(Lines("saved"), Words{"TERM"});
  EXPECT_EQ(Lines("got"), Words{"TERM"}) << "a second one would break into the first";
}

TEST_F(StopTest, WhatAShellStartedInAGroupOfItsOwnGetsTerm) {
  Run(Spec("setsid " + Trainer(Saves("TERM")) + "\necho end"));
  ASSERT_TRUE(bench_.Stop(kKey, kHour));
  EXPECT_EQ(Lines("saved"), Words{"TERM"});
  EXPECT_EQ(Lines("got"), Words{"TERM"});
}

TEST_F(StopTest, WhatIsLeftDelaysAStopByItsGraceAtMost) {
  Run(Spec(Trainer("trap : TERM") + "\necho end"));
  const auto before = std::chrono::steady_clock::now();
  const auto stopped = bench_.Stop(kKey, Millis{1'000});
  const auto took = std::chrono::steady_clock::now() - before;
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  EXPECT_GE(took, std::chrono::milliseconds(900));
  EXPECT_LE(took, std::chrono::seconds(10)) << "of the 20 that are waited for an answer";
}

TEST_F(StopTest, NobodyWaitsForWhatIsLeftOfAGangThatFailed) {
  Run(Spec(Trainer("trap : TERM") + "\necho end"));
  bench_.runner().Stop({kKey, StopCause::kRankFailed, kHour});
  EXPECT_TRUE(bench_.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.key == kKey; }));
}

TEST_F(StopTest, ARestartedAgentWaitsForWhatIsLeftToo) {
  Run(Spec(Trainer(Saves("TERM")) + "\necho end"));
  bench_.runner().Stop({kKey, StopCause::kCancelled, kHour});
  ASSERT_NE(EndOfRank(), ExitCause(UnknownEnd{}));
  bench_.Kill();
  bench_.Open();
  ASSERT_TRUE(bench_.Stop(kKey, kHour));
  EXPECT_EQ(Lines("saved"), Words{"TERM"});
  EXPECT_EQ(Lines("got"), Words{"TERM"});
}

// The checkpoint signal.
class SignalTest : public StopTest {
 protected:
  AllocationSpec Spec(const std::string& script) {
    AllocationSpec spec = StopTest::Spec(script);
    spec.stop.signal = SIGUSR1;
    spec.stop.signal_before = kHour;
    return spec;
  }
};

TEST_F(SignalTest, PassesByAShellToTheTrainer) {
  Run(Spec("echo begin\n" + Trainer(Saves("USR1")) + "\necho end"));
  ASSERT_TRUE(bench_.Stop(kKey, kHour));
  EXPECT_EQ(Lines("saved"), Words{"USR1"});
  const auto report = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cause, ExitCause(Exited{0}));
  ASSERT_EQ(report->our_signals.size(), 1u) << "noted as ever";
  EXPECT_EQ(report->our_signals[0].signal, SIGUSR1);
}

// That trap has bash catch every signal, to run it and die of the signal then.
TEST_F(SignalTest, PassesByAShellWithATrapForItsEnd) {
  Run(Spec("trap 'echo bye >>bye' EXIT\n" + Trainer(Saves("USR1")) + "\necho end"));
  ASSERT_TRUE(bench_.Stop(kKey, kHour));
  EXPECT_EQ(Lines("saved"), Words{"USR1"});
  EXPECT_EQ(EndOfRank(), ExitCause(Exited{0}));
  EXPECT_EQ(Lines("bye").size(), 1u);
}

TEST_F(SignalTest, ReachesEveryTrainerOfALauncher) {
  const std::string launcher =
      "bash -c '(trap \"echo one >>saved; exit\" USR1; echo up >>up; while :; do sleep 0.02; done) "
      "& "
      "(trap \"echo two >>saved; exit\" USR1; echo up >>up; while :; do sleep 0.02; done) & wait'";
  Run(Spec(launcher + "\necho end"), 2);
  ASSERT_TRUE(bench_.Stop(kKey, kHour));
  Words saved = Lines("saved");
  std::ranges::sort(saved);
  EXPECT_EQ(saved, (Words{"one", "two"}));
  EXPECT_EQ(EndOfRank(), ExitCause(Exited{0}));
}

TEST_F(SignalTest, StaysWithAScriptThatTrapsIt) {
  Run(Spec("trap 'echo script >>saved; kill $!; exit 0' USR1\n" + Trainer(Saves("USR1")) +
           " &\nwhile :; do sleep 0.02; done"));
  ASSERT_TRUE(bench_.Stop(kKey, kHour));
  EXPECT_EQ(Lines("saved"), Words{"script"});
}

// What a trainer forked has its handlers, which are not meant for it.
TEST_F(SignalTest, StaysWithTheUppermostOfThoseThatCatchIt) {
  const std::string worker = R"((trap "echo worker >>saved; exit" USR1; echo up >>up; )"
                             R"(while :; do sleep 0.02; done) & )";
  Run(Spec("bash -c '" + worker + Saves("USR1") +
           "; echo up >>up; while :; do sleep 0.02; done'\necho end"),
      2);
  bench_.runner().Stop({kKey, StopCause::kCancelled, kHour});
  ASSERT_NE(EndOfRank(), ExitCause(UnknownEnd{}));
  EXPECT_EQ(Lines("saved"), Words{"USR1"});
  bench_.runner().Stop({kKey, StopCause::kCancelled, Millis{0}, true});
  EXPECT_TRUE(bench_.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.key == kKey; }));
  EXPECT_EQ(Lines("saved"), Words{"USR1"});
}

TEST_F(SignalTest, GoesToTheRanksOwnProcessWhereNobodyCatchesIt) {
  Run(Spec(Trainer(Saves("TERM")) + "\necho end"));
  bench_.runner().Stop({kKey, StopCause::kCancelled, kHour});
  EXPECT_EQ(EndOfRank(), ExitCause(Signalled{SIGUSR1, false}));
  bench_.runner().Stop({kKey, StopCause::kCancelled, kHour, true});
  EXPECT_TRUE(bench_.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.key == kKey; }));
  EXPECT_EQ(Lines("saved"), Words{"TERM"}) << "which outlived it";
}

}  // namespace
}  // namespace launch::agent
