// requeue_after: a silent node's part is given up only when its ranks must have ended by
// themselves.
#include <gtest/gtest.h>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

constexpr Millis kLease{600'000};
constexpr Millis kMargin{30'000};

class Leased : public ::testing::Test {
 protected:
  Leased() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Attach("gpu3", 1);
  }
  Key Run(std::optional<Millis> lease = kLease) {
    JobSpec spec = GpuJob(2, 1);
    spec.requeue_after = lease;
    spec.retry.max = 2;
    job = core.Submitted(spec);
    return core.Run(job);
  }
  void Beats(Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis{1'000}) {
      core.Pass(Millis{1'000});
      core.Beat("gpu1");
      core.Beat("gpu3");
    }
  }

  TestCore core;
  JobId job;
};

TEST_F(Leased, NothingIsGivenUpBeforeTheLeaseAndItsMarginAreOver) {
  const Key key = Run();
  core.Detach("gpu2");
  Beats(kLease + kMargin - Millis{2'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  core.Ignore();
  Beats(Millis{4'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_TRUE(core.HasEvent("allocation.lease_over"));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key) << "the rest of the gang ends too";
  core.Exit("gpu1", key, 0, Signalled{15, false});
  core.Release("gpu1", key);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded);
  EXPECT_EQ(core.View(job).attempts.at(0).outcome, "node_fail");
  EXPECT_NE(core.View(job).state, JobState::kNodeFail) << "it is tried again elsewhere";
}

TEST_F(Leased, WithoutRequeueAfterSilenceGivesUpNothing) {
  const Key key = Run(std::nullopt);
  core.Detach("gpu2");
  Beats(3 * kLease);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
}

TEST_F(Leased, ANodeThatTookNoLeaseIsNeverGivenUp) {
  core.agents_lease = false;
  const Key key = Run();
  core.Detach("gpu2");
  Beats(3 * kLease);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning) << "its agent may be older than leases";
}

TEST_F(Leased, ABeatOfTheNodeBeginsTheTimeAnew) {
  const Key key = Run();
  Beats(kLease);
  core.Beat("gpu2", 60'000);  // it does not hear us; but this one we answered
  Beats(kLease);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  Beats(kMargin + Millis{2'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_TRUE(core.Closed(core.session.at("gpu2"))) << "what still comes on it is not believed";
}

TEST_F(Leased, ARestartOfTheControllerBeginsTheTimeAnew) {
  const Key key = Run();
  core.Detach("gpu2");
  Beats(kLease);
  core.Restart();
  core.Pass(kLease);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning)
      << "the controller before may have answered the node until it ended";
  core.Pass(kMargin + Millis{1'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded) << "neither node was heard again";
}

// Between the guess that its rank was lost and the end of the rest, the node comes with the proof.
class ReturnsWithSuccess : public Leased {
 protected:
  ReturnsWithSuccess() : key(Run()) {
    core.Detach("gpu2");
    Beats(kLease + kMargin + Millis{2'000});
    core.Attach("gpu2", 1);
    core.Exit("gpu2", key, 1, Exited{0});
  }
  Key key;
};

TEST_F(ReturnsWithSuccess, AndTheJobSucceededIfTheRestDidToo) {
  ASSERT_EQ(core.Phase(key), AttemptPhase::kStopping);
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
}

TEST_F(ReturnsWithSuccess, AndTheRestThatWeStoppedIsNoFaultOfTheUser) {
  ASSERT_EQ(core.Phase(key), AttemptPhase::kStopping);
  ExitReport stopped;
  stopped.key = key;
  stopped.rank = 0;
  stopped.cause = Signalled{15, false};
  stopped.our_signals = {{15, BootMs(1), "node_lost"}};
  core.Say("gpu1", from_node::RankExited{stopped});
  core.Release("gpu1", key);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded);
  EXPECT_EQ(core.View(job).attempts.at(0).outcome, "node_fail");
  EXPECT_EQ(core.View(job).attempts.at(0).cause.find("exit 0"), std::string::npos);
}

TEST_F(Leased, ARankThatItsLeaseEndedIsNoFailureOfTheUserAndNoSuccess) {
  const Key key = Run();
  ExitReport report;
  report.key = key;
  report.rank = 1;
  report.cause = Exited{0};  // it saved and left when it was told to
  report.our_signals = {{15, BootMs(1), "lease"}};
  core.Ignore();
  core.Say("gpu2", from_node::RankExited{report});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_EQ(core.state.attempts.at(key).stop_cause, StopCause::kNodeLost);
  EXPECT_NE(core.state.attempts.at(key).cause.find("requeue_after"), std::string::npos);
}

}  // namespace
}  // namespace launch::controller
