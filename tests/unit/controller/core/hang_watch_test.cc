// Jobs that stand still: when it is noticed, what is asked, what follows.
#include <algorithm>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct HangWatched : testing::Test {
  void Begin(HangAction action, bool gpu = true, Millis after = Millis{60'000}) {
    core.Attach("gpu1", 2);
    JobSpec spec = gpu ? GpuJob(1, 2) : CpuJob(1);
    spec.hang = {after, action};
    spec.retry.max = 1;
    job = core.Submitted(spec);
    key = core.Run(job);
    core.Ignore();
    ranks = core.state.allocs.at(key).at(NodeId{"gpu1"}).ranks;
  }
  // One round of samples, `passed` after the last; every rank was silent since `silent`.
  void Sample(Millis passed, Millis silent) {
    core.Pass(passed);
    core.Beat("gpu1");
    boot += passed;
    from_node::Samples samples;
    samples.boot = boot;
    for (const GpuUuid& gpu : core.state.allocs.at(key).at(NodeId{"gpu1"}).gpus) {
      GpuSample sample;
      sample.uuid = gpu;
      sample.utilization = use;
      sample.power_w = power;
      samples.gpus.push_back(sample);
    }
    for (const Rank rank : ranks) {
      samples.ranks.push_back(
          {.key = key, .rank = rank, .step = step, .output_age_ms = silent.count(), .cpu_ms = cpu});
    }
    core.Say("gpu1", samples);
  }
  void StandStill() {  // for two minutes
    for (int i = 1; i <= 60; ++i) Sample(Millis{2'000}, Millis{2'000LL * i});
  }
  void Answer() {
    for (const Rank rank : ranks) {
      RankStacks stacks{.key = key, .rank = rank};
      ProcessStack process{.pid = 10, .state = "S", .source = "faulthandler"};
      process.frames = {{"nap", "/w/train.py", 3}};
      if (rank == 0 && ranks.size() > 1) {
        process.frames = {{"barrier", "/x/torch/distributed/distributed_c10d.py", 9},
                          {"step", "/w/train.py", 8}};
      }
      stacks.processes = {process};
      core.Say("gpu1", from_node::Stacks{stacks});
    }
  }
  const AttemptRecord& Record() { return core.state.attempts.at(key); }
  long Events(const std::string& kind) {
    return std::count_if(core.rows.begin(), core.rows.end(),
                         [&](const EventRow& row) { return row.kind == kind; });
  }
  bool Warned() {
    const JobView view = core.View(job);
    return std::any_of(view.findings.begin(), view.findings.end(),
                       [](const Finding& finding) { return finding.code == "hang"; });
  }

  TestCore core;
  JobId job;
  Key key;
  std::vector<Rank> ranks;
  BootTime boot = BootMs(5'000);
  double use = 0;
  std::optional<double> power;
  std::optional<std::int64_t> step;
  std::uint64_t cpu = 100;
};

TEST_F(HangWatched, IsSaidOnceAndTheRanksAreAsked) {
  Begin(HangAction::kDiagnose);
  Sample(Millis{2'000}, Millis{0});
  EXPECT_FALSE(core.WasTold<to_node::CollectStacks>("gpu1"));
  StandStill();
  EXPECT_EQ(core.Told<to_node::CollectStacks>("gpu1").key, key);
  EXPECT_FALSE(core.WasTold<to_node::CollectStacks>("gpu1")) << "asked twice";
  EXPECT_EQ(Events("attempt.hang"), 1);
  EXPECT_TRUE(Warned());
}

TEST_F(HangWatched, TheLastAnswerBringsTheVerdict) {
  Begin(HangAction::kDiagnose);
  Sample(Millis{2'000}, Millis{0});
  for (int i = 1; i <= 31; ++i) Sample(Millis{2'000}, Millis{2'000LL * i});
  EXPECT_FALSE(Record().verdict);
  Answer();
  ASSERT_TRUE(Record().verdict);
  EXPECT_EQ(Record().verdict->label, "hang");
  EXPECT_EQ(Record().verdict->node, NodeId{"gpu1"});
  EXPECT_EQ(Record().phase, AttemptPhase::kRunning);
  EXPECT_EQ(Events("rank.stands"), static_cast<long>(ranks.size()));
  Answer();
  EXPECT_EQ(Events("attempt.diagnosed"), 1) << "answers that come again change nothing";
}

TEST_F(HangWatched, WithoutAnswersTheVerdictComesAllTheSame) {
  Begin(HangAction::kDiagnose);
  Sample(Millis{2'000}, Millis{0});
  StandStill();
  ASSERT_TRUE(Record().verdict);
  EXPECT_EQ(Record().verdict->confidence, Confidence::kSymptom);
}

TEST_F(HangWatched, LifeTakesTheVerdictBack) {
  Begin(HangAction::kDiagnose);
  Sample(Millis{2'000}, Millis{0});
  StandStill();
  ASSERT_TRUE(Record().verdict);
  Sample(Millis{2'000}, Millis{0});
  EXPECT_FALSE(Record().verdict);
  EXPECT_FALSE(Warned());
  EXPECT_EQ(Events("attempt.hang_over"), 1);
  StandStill();
  EXPECT_EQ(Events("attempt.hang"), 2);
}

TEST_F(HangWatched, RestartStopsTheAttemptAndTriesAgain) {
  Begin(HangAction::kRestart);
  Sample(Millis{2'000}, Millis{0});
  StandStill();
  EXPECT_EQ(Record().phase, AttemptPhase::kStopping);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kHang);
  for (const Rank rank : ranks) core.Exit("gpu1", key, rank, Signalled{15, false});
  core.Release("gpu1", key);
  EXPECT_EQ(Record().outcome, "hang");
  EXPECT_EQ(core.state.jobs.at(job).attempts, 2u);
  EXPECT_EQ(core.state.jobs.at(job).retries.at("hang"), 1);
}

TEST_F(HangWatched, NothingIsLookedAtWithActionNone) {
  Begin(HangAction::kNone);
  Sample(Millis{2'000}, Millis{0});
  StandStill();
  EXPECT_EQ(Events("attempt.hang"), 0);
}

TEST_F(HangWatched, AGpuInUseIsNoHang) {
  Begin(HangAction::kRestart);
  use = 0.5;
  StandStill();
  EXPECT_EQ(Events("attempt.hang"), 0);
}

TEST_F(HangWatched, AGpuThatOnlySpinsIsOneOnceStepsWereSeen) {
  Begin(HangAction::kDiagnose);
  use = 1.0;
  power = 100;  // of 700 W
  auto inventory = *core.state.inventories.at(NodeId{"gpu1"});
  for (GpuDevice& gpu : inventory.gpus) gpu.power_limit_w = 700;
  core.Say("gpu1", from_node::InventoryChanged{inventory});
  StandStill();
  EXPECT_EQ(Events("attempt.hang"), 0) << "a light load that never named a step";
  step = 1;
  Sample(Millis{2'000}, Millis{0});
  step = 2;
  Sample(Millis{2'000}, Millis{0});
  StandStill();
  EXPECT_EQ(Events("attempt.hang"), 1);
}

TEST_F(HangWatched, StepsAreLifeWithoutOutput) {
  Begin(HangAction::kRestart);
  for (int i = 1; i <= 60; ++i) {
    step = i;
    Sample(Millis{2'000}, Millis{2'000LL * i});
  }
  EXPECT_EQ(Events("attempt.hang"), 0);
}

TEST_F(HangWatched, WithoutAGpuTheCoresCount) {
  Begin(HangAction::kRestart, false);
  for (int i = 1; i <= 60; ++i) {
    cpu += 1'000;
    Sample(Millis{2'000}, Millis{2'000LL * i});
  }
  EXPECT_EQ(Events("attempt.hang"), 0);
  for (int i = 1; i <= 60; ++i) {
    cpu += 10;
    Sample(Millis{2'000}, Millis{2'000LL * i});
  }
  EXPECT_EQ(Events("attempt.hang"), 1);
}

TEST_F(HangWatched, WorkIsSeenInTimeAlsoForAShortLimit) {
  Begin(HangAction::kRestart, false, Millis{2'000});
  for (int i = 1; i <= 60; ++i) {
    cpu += 100;
    Sample(Millis{200}, Millis{200LL * i});
  }
  EXPECT_EQ(Events("attempt.hang"), 0);
}

TEST_F(HangWatched, ANodeSpeaksForItsOwnRanksOnly) {
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  JobSpec spec = GpuJob(2, 1);
  spec.hang = {Millis{60'000}, HangAction::kDiagnose};
  job = core.Submitted(spec);
  key = core.Run(job);
  core.Ignore();
  const auto say = [&](const std::string& node, Rank rank, std::int64_t at_step,
                       std::int64_t silent) {
    from_node::Samples samples;
    samples.boot = boot;
    samples.ranks = {{.key = key, .rank = rank, .step = at_step, .output_age_ms = silent}};
    core.Say(node, samples);
  };
  const auto& allocs = core.state.allocs.at(key);
  const Rank first = allocs.at(NodeId{"gpu1"}).ranks.front();
  const Rank second = allocs.at(NodeId{"gpu2"}).ranks.front();
  say("gpu1", first, 7, 0);
  EXPECT_EQ(core.View(job).step, 7);
  say("gpu2", first, 900, 0);
  EXPECT_EQ(core.View(job).step, 7) << "a step of another node's rank";
  EXPECT_EQ(core.state.live.attempts.at(key).samples.at(first).step, 7);
  // A node that goes on telling of the others' ranks does not make them live.
  for (int i = 1; i <= 60; ++i) {
    core.Pass(Millis{2'000});
    core.Beat("gpu1");
    core.Beat("gpu2");
    boot += Millis{2'000};
    say("gpu1", first, 7, 2'000LL * i);
    say("gpu2", first, 900 + i, 0);
    say("gpu2", second, 7, 2'000LL * i);
  }
  EXPECT_EQ(Events("attempt.hang"), 1);
}

TEST_F(HangWatched, StacksOfNobodyAreIgnored) {
  Begin(HangAction::kDiagnose);
  Answer();
  core.Say("gpu1", from_node::Stacks{{.key = Key{JobId{99}, Attempt{1}}, .rank = 0}});
  core.Say("gpu1", from_node::Stacks{{.key = key, .rank = 77}});
  EXPECT_EQ(Events("rank.stands"), 0);
}

TEST_F(HangWatched, AnEndAfterTheHangIsJudgedByItsLog) {
  Begin(HangAction::kDiagnose);
  Sample(Millis{2'000}, Millis{0});
  StandStill();
  core.Exit("gpu1", key, 0, Exited{1});
  for (const Rank rank : ranks) {
    if (rank != 0) core.Exit("gpu1", key, rank, Signalled{15, false});
  }
  core.Release("gpu1", key);
  Verdict verdict;
  verdict.label = "cuda_illegal_access";
  verdict.confidence = Confidence::kLikely;
  core.Post(event::Diagnosed{key, verdict});
  EXPECT_EQ(Record().verdict->label, "cuda_illegal_access");
}

}  // namespace
}  // namespace launch::controller
