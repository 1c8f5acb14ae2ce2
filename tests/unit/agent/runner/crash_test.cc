// The agent or a shim is killed at each named crash point; what a new agent finds must be right.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <variant>

#include "agent/runner/file_lock.h"
#include "tests/unit/agent/runner/crash_spec.h"

namespace launch::agent {
namespace {

struct Point {
  const char* name;
  bool in_shim;
};
void PrintTo(const Point& point, std::ostream* out) { *out << point.name; }

class CrashTest : public testing::TestWithParam<Point> {
 protected:
  // One life of an agent, in a program of its own: the points count their passes per process.
  int LiveAndDie() {
    bench_.Remember(CrashSpec(bench_));
    const pid_t agent = ::fork();
    if (agent == 0) {
      ::setenv("LAUNCH_FAILPOINT", GetParam().name, 1);
      ::execl(LAUNCH_BINARY_DIR "/bin/crash_agent", "crash_agent", bench_.dir().c_str(),
              bench_.options().cgroup_name.c_str(), nullptr);
      ::_exit(9);
    }
    int status = 0;
    ::waitpid(agent, &status, 0);
    return status;
  }

  RunnerBench bench_;
};

TEST_P(CrashTest, LeavesWhatTheNextAgentCanFinish) {
#ifndef LAUNCH_FAILPOINTS
  GTEST_SKIP() << "built without LAUNCH_FAILPOINTS";
#endif
  const int status = LiveAndDie();
  if (GetParam().in_shim) {
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 0) << "the agent must live through the death of a shim";
  } else {
    ASSERT_TRUE(WIFSIGNALED(status)) << "the point was not reached: " << status;
  }
  const RunnerState state = bench_.Open();
  ASSERT_LE(state.allocations.size(), 1u);
  for (const FoundAllocation& found : state.allocations) {
    EXPECT_FALSE(found.unreadable) << found.why;
    for (const RankStatus& rank : found.status.ranks) {
      if (!rank.exit) continue;
      const bool known = rank.exit->cause == ExitCause(Exited{33}) ||
                         std::holds_alternative<UnknownEnd>(rank.exit->cause) ||
                         std::holds_alternative<FailedToStart>(rank.exit->cause);
      EXPECT_TRUE(known) << Describe(rank.exit->cause);
    }
  }
  const auto stopped = bench_.Stop(kCrashKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  EXPECT_EQ(bench_.CountLedger("overlap"), 0);
  EXPECT_LE(bench_.CountLedger("start"), 2) << "no rank starts twice";
  EXPECT_NE(ProbeLock(GpuLockPath(bench_.options().lock_dir, {"GPU-a"})), LockState::kHeld);
  const CgroupHost host = SetUpCgroups({bench_.options().cgroup_name, std::nullopt, {}});
  EXPECT_FALSE(AllocationCgroup(host, kCrashKey).Exists()) << "an empty cgroup was left";
  // Every rank that ran is really gone.
  for (const std::string& line : bench_.Ledger()) {
    if (!line.starts_with("start ")) continue;
    const int pid = std::atoi(line.c_str() + line.rfind(' ', line.rfind(' ') - 1));
    EXPECT_FALSE(bench_.ProcessLives(pid)) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Points, CrashTest,
    testing::Values(Point{"launch.3.before", false}, Point{"launch.3.after", false},
                    Point{"launch.7.before", false}, Point{"launch.7.spawned:1", false},
                    Point{"launch.7.spawned:2", false}, Point{"launch.7.after", false},
                    Point{"exit.2.before:1", false}, Point{"exit.2.before:2", false},
                    Point{"stop.4.before", false}, Point{"stop.4.tombstone", false},
                    Point{"stop.5.before", false}, Point{"stop.5.after", false},
                    Point{"exit.3.before", false}, Point{"exit.3.after", false},
                    Point{"exit.4.before", false}, Point{"exit.4.logs_kept", false},
                    Point{"exit.4.after", false}, Point{"launch.8.before", true},
                    Point{"launch.8.after", true}, Point{"launch.9.after", true},
                    Point{"exit.1.before", true}, Point{"exit.1.after", true}),
    [](const auto& point) {
      std::string name = point.param.name;
      for (char& c : name) {
        if (c == '.' || c == ':') c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace launch::agent
