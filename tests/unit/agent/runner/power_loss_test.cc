// The power of a node is lost at each sync of its agent and of a shim: what was told by then is
// there when it is back.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/fakes/volatile_disk/volatile_disk.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

using launch::testing::VolatileDisk;

constexpr Key kRan{{31}, {2}};
constexpr Key kNeverSeen{{32}, {1}};  // stopped before its accept came
constexpr Fence kObeyed{1, 7, 42};

enum class Said : char { kFence, kTombstone, kAccepted, kStarted, kEnded, kReleased };

AllocationSpec Spec(const RunnerBench& bench) { return bench.Spec(kRan, 1, {"--exit", "33"}); }

bool Live(RunnerBench& bench, const VolatileDisk& disk, int out) {
  const auto say = [&](Said said) { return disk.HasPower() && ::write(out, &said, 1) == 1; };
  bench.Open();
  if (!bench.runner().SaveFence(kObeyed) || !say(Said::kFence)) return false;
  if (!bench.Stop(kNeverSeen, Millis{0}) || !say(Said::kTombstone)) return false;
  const auto accepted = bench.Accept(Spec(bench));
  if (!accepted || !accepted->ports || !say(Said::kAccepted)) return false;
  const auto started = bench.Start(kRan);
  if (!started || started->failed || !say(Said::kStarted)) return false;
  if (!bench.AwaitEnd(kRan, 0) || !say(Said::kEnded)) return false;
  return bench.Stop(kRan, Millis{0}) && say(Said::kReleased);
}

std::set<Said> LiveUntilPowerLoss(RunnerBench& bench, const VolatileDisk& disk) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Live(bench, disk, ends[1]) ? 0 : 1);
  ::close(ends[1]);
  std::set<Said> all;
  for (Said said{}; ::read(ends[0], &said, 1) == 1;) all.insert(said);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(!disk.HasPower() || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
  return all;
}

void ExpectAllOf(const std::set<Said>& said, const RunnerState& state) {
  const auto find = [&](const Key& key) -> const FoundAllocation* {
    const auto found =
        std::ranges::find(state.allocations, key, [](const auto& one) { return one.status.key; });
    return found == state.allocations.end() ? nullptr : &*found;
  };
  for (const FoundAllocation& found : state.allocations) {
    EXPECT_FALSE(found.unreadable) << found.why;
  }
  if (said.contains(Said::kFence)) {
    EXPECT_EQ(state.fence, kObeyed);
  }
  if (said.contains(Said::kTombstone)) {
    const FoundAllocation* never = find(kNeverSeen);
    ASSERT_NE(never, nullptr) << "it would be accepted after its stop";
    EXPECT_TRUE(never->tombstone);
  }
  if (!said.contains(Said::kAccepted)) return;
  const FoundAllocation* ran = find(kRan);
  ASSERT_NE(ran, nullptr) << "an accepted attempt is forgotten";
  ASSERT_EQ(ran->status.ranks.size(), 1u);
  const RankStatus& rank = ran->status.ranks[0];
  if (said.contains(Said::kStarted)) {
    EXPECT_TRUE(rank.started);
  }
  if (said.contains(Said::kEnded)) {
    ASSERT_TRUE(rank.exit);
    EXPECT_EQ(rank.exit->cause, ExitCause(Exited{33})) << Describe(rank.exit->cause);
  }
  if (said.contains(Said::kReleased)) {
    EXPECT_TRUE(ran->tombstone);
    EXPECT_EQ(ran->status.phase, AllocationPhase::kReleased);
  }
}

TEST(AgentPowerLoss, LeavesAllThatWasTold) {
  int nth = 0;
  for (bool lost = true; lost && !HasFailure();) {
    ASSERT_LT(++nth, 100);
    SCOPED_TRACE("the power is lost at sync " + std::to_string(nth));
    const VolatileDisk disk;
    RunnerBench bench;
    bench.options().state_dir = disk.root();
    bench.options().shim_path = LAUNCH_BINARY_DIR "/bin/volatile_shim";
    bench.Remember(Spec(bench));
    disk.LosePowerAtSync(nth);
    const std::set<Said> said = LiveUntilPowerLoss(bench, disk);
    lost = !disk.HasPower();
    EXPECT_TRUE(lost || said.contains(Said::kReleased));
    const std::string left[] = {disk.AfterPowerLoss(VolatileDisk::Names::kSynced),
                                disk.AfterPowerLoss(VolatileDisk::Names::kAll)};
    // A node that boots has no process of before.
    disk.Detach();
    bench.Open();
    ASSERT_TRUE(bench.Stop(kRan, Millis{0}));
    bench.Kill();
    for (const std::string& state_dir : left) {
      SCOPED_TRACE(state_dir.ends_with("/all") ? "names are quicker than bytes" : "");
      RunnerBench next(bench.dir(), bench.options().cgroup_name);
      next.options().state_dir = state_dir;
      next.Remember(Spec(next));
      ExpectAllOf(said, next.Open());
    }
  }
  EXPECT_GT(nth, 15) << "the syncs of the shim are among them";
}

}  // namespace
}  // namespace launch::agent
