// Real shims end their ranks when the lease is over, whether there is an agent or not.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{4}, {1}};
constexpr Millis kGrace{300};

class LeaseTest : public ::testing::Test {
 protected:
  LeaseTest() { bench_.Open(); }
  // Ranks that wait for a file that never comes.
  bool RunFor(Millis lease, std::vector<std::string> arguments, int ranks = 1) {
    arguments.insert(arguments.end(), {"--sleep-until", bench_.Path("never")});
    AllocationSpec spec = bench_.Spec(kKey, ranks, arguments);
    spec.lease = lease;
    spec.stop.grace = kGrace;
    if (const auto accepted = bench_.Accept(spec); !accepted || !accepted->ports) return false;
    order::Start start;
    start.go.key = kKey;
    start.lease_end = clock_.Now() + lease;
    bench_.runner().Start(start);
    const auto done = bench_.told().Await<told::StartDone>(
        [](const told::StartDone& told) { return told.key == kKey; });
    return done && !done->failed;
  }

  RunnerBench bench_;
  SystemClock clock_;
};

TEST_F(LeaseTest, EndsRanksWithAReasonWhenNobodyExtendsIt) {
  ASSERT_TRUE(RunFor(Millis{1'500}, {}));
  const auto report = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cause, ExitCause(Signalled{SIGTERM, false}));
  EXPECT_TRUE(EndedByLease(*report));
}

TEST_F(LeaseTest, KillsWhatIgnoresTermWithItsChildrenWhileTheAgentIsDead) {
  ASSERT_TRUE(RunFor(Millis{4'000}, {"--ignore-term", "--fork-daemon"}));
  ASSERT_TRUE(bench_.AwaitWitnesses(1));
  bench_.Kill();
  const AttemptDir dir(bench_.Path("state/allocations/") + ToString(kKey), *bench_.options().files);
  ASSERT_TRUE(
      bench_.Eventually([&] { return dir.ReadRank(0).exit_state == shim::RecordState::kValid; }));
  const RunnerState state = bench_.Open();
  ASSERT_EQ(state.allocations.size(), 1u);
  ASSERT_TRUE(state.allocations[0].status.ranks.at(0).exit);
  EXPECT_EQ(state.allocations[0].status.ranks[0].exit->cause, ExitCause(Signalled{SIGKILL, false}));
  EXPECT_TRUE(EndedByLease(*state.allocations[0].status.ranks[0].exit));
  EXPECT_TRUE(state.allocations[0].lease_end) << "a restarted agent knows it";
}

TEST_F(LeaseTest, GoesOnWhileItIsExtended) {
  ASSERT_TRUE(RunFor(Millis{1'500}, {}));
  const BootTime first_end = clock_.Now() + Millis{1'500};
  bench_.runner().ExtendLease({kKey, clock_.Now() + Millis{3'000}});
  ASSERT_TRUE(bench_.Eventually([&] { return clock_.Now() > first_end + Millis{300}; }));
  EXPECT_EQ(bench_.told().Count<told::RankEnded>(), 0);
  const auto report = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(report);
  EXPECT_TRUE(EndedByLease(*report)) << "the second end is kept, too";
}

TEST_F(LeaseTest, OneThatIsOverStartsNothing) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.lease = Millis{1'000};
  spec.stop.grace = kGrace;
  ASSERT_TRUE(bench_.Accept(spec));
  order::Start start;
  start.go.key = kKey;
  start.lease_end = clock_.Now() - Millis{1};
  bench_.runner().Start(start);
  const auto done = bench_.told().Await<told::StartDone>(
      [](const told::StartDone& told) { return told.key == kKey; });
  ASSERT_TRUE(done && done->failed);
  EXPECT_EQ(done->failed->stage, "lease");
  EXPECT_TRUE(bench_.Ledger().empty());
}

}  // namespace
}  // namespace launch::agent
