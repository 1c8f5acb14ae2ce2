#include "controller/core/measured_runs.h"

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

constexpr std::uint64_t kGb = std::uint64_t{1} << 30;

struct Measuring : testing::Test {
  Measuring() {
    core.Attach("gpu1", 1);
    core.plan_run = {.job = "paper", .device = "A100-80GB", .architecture = "llama"};
    core.plan_run.script = "0123456789abcdef";
  }
  // A job that ends well, its GPU at `used` bytes at most.
  JobId Done(JobSpec spec, std::uint64_t used) {
    const JobId job = core.Submitted(std::move(spec));
    const Key key = core.Run(job);
    for (const std::uint64_t bytes : {used / 2, used, used / 4}) {
      from_node::Samples samples;
      samples.boot = boot += Millis{200};
      GpuSample sample;
      sample.uuid = core.state.allocs.at(key).at(NodeId{"gpu1"}).gpus.at(0);
      sample.used_bytes = bytes;
      samples.gpus = {sample};
      core.Say("gpu1", samples);
    }
    core.Exit("gpu1", key, 0, Exited{0});
    core.Release("gpu1", key);
    core.Ignore();
    return job;
  }
  Result<reply::Done> Note(JobId job, const ProbePoint& point, const std::string& user = "ana") {
    const RequestId request{++requests};
    core.Post(event::NoteProbe{request, {UserName{user}, false}, job, point});
    return core.Answer<reply::Done>(request);
  }
  TestCore core;
  BootTime boot = BootMs(5'000);
  std::uint64_t requests = 5'000;
};

JobSpec Probe() {
  JobSpec spec = GpuJob(1, 1);
  spec.debug = true;
  return spec;
}

ProbePoint Point(std::int64_t micro) {
  return {micro, 2, true, 1e9, 2e9 * static_cast<double>(micro), 1e9, 0.25, 0.125};
}

TEST_F(Measuring, ARunTellsTheMostItsGpuHeld) {
  const JobId job = Done(GpuJob(1, 1), 40 * kGb);
  core.Restart();
  const auto measured = core.View(job).measured;
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->peak_gib, 40);
}

TEST_F(Measuring, AProbeIsKeptWithItsJob) {
  const JobId probe = Done(Probe(), kGb);
  EXPECT_FALSE(core.View(probe).measured) << "nothing is noted yet";
  ASSERT_TRUE(Note(probe, Point(4)));
  ASSERT_TRUE(Note(probe, Point(4))) << "the same again changes nothing";
  EXPECT_EQ(std::count_if(core.rows.begin(), core.rows.end(),
                          [](const EventRow& row) { return row.kind == "job.probed"; }),
            1);
  core.Restart();
  const auto measured = core.View(probe).measured;
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->probe, Point(4));
  EXPECT_EQ(measured->script, "0123456789abcdef");
}

TEST_F(Measuring, OnlyTheOwnerOfAProbeNotesIt) {
  const JobId probe = Done(Probe(), kGb);
  const auto other = Note(probe, Point(4), "ben");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kNotFound);
  const JobId job = Done(GpuJob(1, 1), kGb);
  const auto whole = Note(job, Point(4));
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(Note(JobId{99}, Point(4)));
}

TEST_F(Measuring, PlansOfASubmitAndOfAnAttemptKnowThem) {
  Done(GpuJob(1, 1), 40 * kGb);
  Note(Done(Probe(), kGb), Point(4));
  core.answer_plans = false;
  core.Submit(GpuJob(1, 1));
  const auto submit = std::get<effect::PlanWanted>(core.effects.at(0));
  ASSERT_EQ(submit.questions.history.size(), 2u);
  EXPECT_EQ(submit.questions.history[0].peak_gib, 40) << "oldest first";
  EXPECT_TRUE(submit.questions.history[1].probe);
  core.Ignore();
  core.Post(core.Answered(submit));
  const auto placed = std::get<effect::PlanWanted>(core.effects.back());
  ASSERT_TRUE(placed.placed);
  EXPECT_EQ(placed.questions.history, submit.questions.history);
}

TEST_F(Measuring, TheRunsOfOthersComeWithoutTheirName) {
  Done(GpuJob(1, 1), 40 * kGb);
  Note(Done(Probe(), kGb), Point(4));
  const auto history = HistoryFor(core.state, UserName{"ben"});
  ASSERT_EQ(history.size(), 1u) << "a probe corrects nothing";
  EXPECT_EQ(history[0].job + history[0].script, "");
  EXPECT_EQ(history[0].peak_gib, 40);
}

TEST_F(Measuring, WhatEndsAfterASubmitIsNotInTheHistoryOfItsAttempts) {
  const JobId first = Done(GpuJob(1, 1), 40 * kGb);
  const JobId waiting = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(HistoryFor(core.state, core.state.jobs.at(waiting)).size(), 1u);
  JobRecord later = core.state.jobs.at(first);
  later.ended = core.state.jobs.at(waiting).submitted + Millis{1};
  State state = core.state;
  Apply(state, Put{later});
  EXPECT_TRUE(HistoryFor(state, state.jobs.at(waiting)).empty());
  EXPECT_EQ(HistoryFor(state, core.user).size(), 1u);
}

}  // namespace
}  // namespace launch::controller
