// The verdict of a failed attempt: asked for once its ranks are gone, waited for, kept.
#include <algorithm>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

Verdict OutOfRange() {
  Verdict verdict;
  verdict.label = "device_side_assert";
  verdict.confidence = Confidence::kLikely;
  verdict.rank = 0;
  verdict.node = NodeId{"gpu1"};
  verdict.cause = "An index is out of range";
  verdict.action = "no_retry";
  return verdict;
}

struct Diagnosing : testing::Test {
  Diagnosing() {
    core.Attach("gpu1", 2);
    core.Ignore();
    core.answer_diagnoses = false;
  }
  // Until all ranks are gone; the questions that were asked then.
  std::vector<effect::DiagnosisWanted> RunAndFail() {
    job = core.Submitted(GpuJob(1, 2));
    key = core.Run(job);
    core.Exit("gpu1", key, 1, Exited{1}, 6'000);
    core.Exit("gpu1", key, 0, Signalled{15, false}, 7'000);
    core.Ignore();
    core.Release("gpu1", key);
    return Questions();
  }
  std::vector<effect::DiagnosisWanted> Questions() {
    std::vector<effect::DiagnosisWanted> wanted;
    for (const Effect& effect : core.effects) {
      if (const auto* one = std::get_if<effect::DiagnosisWanted>(&effect)) wanted.push_back(*one);
    }
    core.Ignore();
    return wanted;
  }
  TestCore core;
  JobId job;
  Key key;
};

TEST_F(Diagnosing, AsksForTheRanksThatFailedTheFirstOneInFront) {
  const auto asked = RunAndFail();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].key, key);
  ASSERT_EQ(asked[0].ranks.size(), 2u);
  EXPECT_EQ(asked[0].ranks[0].exit.rank, 1);
  EXPECT_EQ(asked[0].ranks[0].node, NodeId{"gpu1"});
}

TEST_F(Diagnosing, OfManyThatFailedTheFirstOnesOnTheControllersClockAreRead) {
  core.Attach("gpu2", 10);
  job = core.Submitted(GpuJob(1, 10));
  key = core.Run(job);
  for (Rank rank = 0; rank < 10; ++rank) {
    core.Exit("gpu2", key, rank, Exited{1}, 9'000 - 100 * rank);
  }
  core.Ignore();
  core.Release("gpu2", key);
  const auto asked = Questions();
  ASSERT_EQ(asked.size(), 1u);
  std::vector<Rank> ranks;
  for (const FailedRank& rank : asked[0].ranks) ranks.push_back(rank.exit.rank);
  EXPECT_EQ(ranks, (std::vector<Rank>{9, 8, 7, 6, 5, 4, 3, 2}));
}

TEST_F(Diagnosing, TheQuestionHasWhatPyTorchHeldMoreFromStepToStep) {
  job = core.Submitted(GpuJob(1, 2));
  key = core.Run(job);
  const GpuDevice& card = core.state.inventories.at(NodeId{"gpu1"})->gpus.front();
  for (std::int64_t i = 0; i < 90; ++i) {
    from_node::Samples samples;
    samples.boot = BootMs(5'000 + 5'000 * i);
    const auto held =
        card.memory_bytes / 2 + card.memory_bytes / 256 * static_cast<std::uint64_t>(i);
    samples.ranks.push_back({.key = key, .rank = 1, .step = 10 * i, .allocated_bytes = held});
    samples.ranks.push_back(
        {.key = key, .rank = 0, .step = 10 * i, .allocated_bytes = card.memory_bytes / 2});
    samples.ranks.push_back({.key = key, .rank = 77, .allocated_bytes = held});
    core.Say("gpu1", samples);
  }
  EXPECT_EQ(core.state.live.attempts.at(key).layers.size(), 2u) << "a rank of nobody";
  for (std::int64_t i = 90; i < 150; ++i) {  // it makes no step any more, on its way to the end
    from_node::Samples samples;
    samples.boot = BootMs(5'000 + 5'000 * i);
    samples.ranks.push_back(
        {.key = key,
         .rank = 1,
         .step = 890,
         .allocated_bytes = card.memory_bytes / 2 + card.memory_bytes / 256 * 89,
         .memory_age_ms = 5'000 * (i - 89)});
    core.Say("gpu1", samples);
  }
  core.Exit("gpu1", key, 1, Exited{1}, 6'000);
  core.Exit("gpu1", key, 0, Exited{1}, 7'000);
  core.Ignore();
  core.Release("gpu1", key);
  const auto asked = Questions();
  ASSERT_EQ(asked.size(), 1u);
  ASSERT_EQ(asked[0].ranks.size(), 2u);
  ASSERT_TRUE(asked[0].ranks[0].seen.growth);
  EXPECT_EQ(asked[0].ranks[0].seen.growth->from, card.memory_bytes / 2);
  EXPECT_EQ(asked[0].ranks[0].seen.growth->steps, 890);
  EXPECT_FALSE(asked[0].ranks[1].seen.growth) << "it held the same all the time";
}

TEST_F(Diagnosing, KeepsTheVerdictWithTheAttemptAndEndsItThen) {
  RunAndFail();
  EXPECT_EQ(core.View(job).state, JobState::kStopping);
  core.Post(event::Diagnosed{key, OutOfRange()});
  const JobView view = core.View(job);
  EXPECT_EQ(view.state, JobState::kFailed);
  ASSERT_TRUE(view.attempts[0].verdict.has_value());
  EXPECT_EQ(view.attempts[0].verdict->label, "device_side_assert");
  EXPECT_TRUE(core.HasEvent("attempt.diagnosed"));
}

TEST_F(Diagnosing, AnExitCodeThatAsksForAnotherAttemptIsExplainedByTheJob) {
  JobSpec spec = GpuJob(1, 1);
  spec.retry.recover_on_exit_codes = {33};
  spec.retry.max = 0;
  job = core.Submitted(spec);
  key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{33}, 6'000);
  core.Release("gpu1", key);
  Verdict unknown;
  unknown.label = "unknown";
  unknown.rank = 0;
  unknown.node = NodeId{"gpu1"};
  unknown.cause = "The cause is not in the evidence";
  unknown.remedy = "run once more with NCCL_DEBUG=WARN";
  unknown.action = "retry_same";
  core.Post(event::Diagnosed{key, unknown});
  const JobView view = core.View(job);
  ASSERT_TRUE(view.attempts[0].verdict.has_value());
  EXPECT_EQ(view.attempts[0].verdict->cause,
            "The program ended with exit code 33, which asks for another attempt "
            "(retry.recover_on_exit_codes)");
  EXPECT_EQ(view.attempts[0].verdict->remedy.find("NCCL"), std::string::npos);
}

// One process for the node, a launcher: it knows which of its ranks failed, by its own number.
TEST_F(Diagnosing, TheOutcomeNamesTheRankThatALauncherReported) {
  JobSpec spec = GpuJob(1, 2);
  spec.launcher = LauncherKind::kNode;
  job = core.Submitted(spec);
  key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{137}, 6'000);
  core.Ignore();
  core.Release("gpu1", key);
  Verdict verdict = OutOfRange();
  verdict.rank = 1;
  core.Post(event::Diagnosed{key, verdict});
  const JobView view = core.View(job);
  EXPECT_EQ(view.outcome, "rank 1 on gpu1: signal 9 (SIGKILL)");
  EXPECT_EQ(view.exit_code, 137);
  EXPECT_EQ(view.attempts[0].first_failed_rank, 1);
}

TEST_F(Diagnosing, AProgramOfOneProcessMayEndWithAnyCode) {
  job = core.Submitted(GpuJob(1, 1));
  key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{137}, 6'000);
  core.Ignore();
  core.Release("gpu1", key);
  core.Post(event::Diagnosed{key, OutOfRange()});
  EXPECT_EQ(core.View(job).outcome, "rank 0 on gpu1: exit 137");
}

TEST_F(Diagnosing, TheVerdictOutlivesTheController) {
  RunAndFail();
  core.Post(event::Diagnosed{key, OutOfRange()});
  core.Restart();
  EXPECT_EQ(core.View(job).attempts[0].verdict, OutOfRange());
}

TEST_F(Diagnosing, AsksAgainAfterARestartInBetween) {
  RunAndFail();
  core.Restart();
  EXPECT_EQ(core.View(job).state, JobState::kStopping);
  EXPECT_TRUE(Questions().empty());  // nobody is attached who could send a log
  core.Attach("gpu1", 2);
  core.Ignore();
  core.Beat("gpu1");
  core.Pass(Millis{1'500});
  EXPECT_EQ(Questions().size(), 1u);
  core.Post(event::Diagnosed{key, OutOfRange()});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
}

TEST_F(Diagnosing, EndsTheAttemptWithoutAVerdictThatDoesNotComeAndKeepsALateOne) {
  RunAndFail();
  core.Beat("gpu1");
  core.Pass(Millis{14'000});
  EXPECT_EQ(core.View(job).state, JobState::kStopping);
  core.Beat("gpu1");
  core.Pass(Millis{1'500});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_FALSE(core.View(job).attempts[0].verdict.has_value());
  core.Post(event::Diagnosed{key, OutOfRange()});
  EXPECT_EQ(core.View(job).attempts[0].verdict, OutOfRange());
}

TEST_F(Diagnosing, AsksAgainWhatTheStoreRefused) {
  const auto asked = RunAndFail();
  ASSERT_EQ(asked.size(), 1u);
  const Decision decision = Decide(core.state, event::Diagnosed{key, OutOfRange()}, core.now);
  Undo(core.state, decision);
  EXPECT_FALSE(core.state.attempts.at(key).verdict.has_value());
  core.Pass(Millis{1});
  EXPECT_EQ(Questions().size(), 1u);
}

TEST_F(Diagnosing, ACancelledJobIsNotDiagnosed) {
  job = core.Submitted(GpuJob(1, 2));
  key = core.Run(job);
  core.Cancel(job);
  for (const Rank rank : {0, 1}) core.Exit("gpu1", key, rank, Signalled{15, false});
  core.Ignore();
  core.Release("gpu1", key);
  EXPECT_TRUE(Questions().empty());
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
}

TEST_F(Diagnosing, ACancelWhileTheLogsAreReadEndsTheJobAtOnce) {
  RunAndFail();
  core.Cancel(job);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
}

TEST_F(Diagnosing, OthersSeeTheLabelOfTheVerdictAndNoWordOfTheLog) {
  RunAndFail();
  core.Post(event::Diagnosed{key, OutOfRange()});
  const JobView view = ViewJob(core.state, core.state.jobs.at(job), false, core.now.boot);
  ASSERT_TRUE(view.attempts[0].verdict.has_value());
  EXPECT_EQ(*view.attempts[0].verdict, (Verdict{.label = "device_side_assert",
                                                .confidence = Confidence::kLikely,
                                                .action = "no_retry"}));
}

}  // namespace
}  // namespace launch::controller
