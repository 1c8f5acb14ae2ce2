#include "planner/choose/memory_lessons.h"

#include <gtest/gtest.h>

#include "common/units.h"
#include "planner/choose/program_digest.h"
#include "planner/trainer/probe_plan.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

JobSpec Llama(int gpus = 8) {
  JobSpec job = GpuJob(gpus, "A100-80GB");
  job.model.fields = Llama7B();
  job.model.fields.erase("activation_checkpointing");
  job.batch = {64, {}, {}};
  job.steps = 100;
  return job;
}

Result<PlannedRun> PlanWith(const JobSpec& job, const std::vector<NodeInventory>& nodes,
                            std::vector<MeasuredRun> history) {
  const auto offers = Offers(nodes);
  const auto placed = Place(job, offers);
  EXPECT_TRUE(placed);
  PlanQuestions questions;
  questions.history = std::move(history);
  return MakePlan({job, Context(), ReadLineOf(job, {}), offers, *placed, {}, "ana", questions});
}

double SumOfPeak(const Plan& plan) {
  double sum = 0;
  for (const PlannedTerm& term : plan.memory.terms)
    if (term.phase == plan.memory.phase) sum += term.gib;
  return sum;
}

// A run of that key: states and buffers of 10 GiB, 20 that grow; it took `peak`.
MeasuredRun Took(double peak) {
  MeasuredRun run;
  run.job = "another";
  run.device = "A100-80GB";
  run.ranks = 8;
  run.architecture = "llama";
  run.framework = "hf";
  run.strategy = "zero1";
  run.peak_gib = peak;
  run.cold_peak_gib = 30;
  run.cold_fixed_gib = 10;
  return run;
}

MeasuredRun Asked() {
  MeasuredRun run = Took(0);
  run.peak_gib.reset();
  run.script = "0123456789abcdef";
  return run;
}

TEST(MemoryLessons, LearnFromRunsOfTheSameKeyWhatGrowsWithTheBatch) {
  const auto lessons = LessonsOf({Took(35), Took(34), Took(60)}, Asked());
  ASSERT_EQ(lessons.corrections.count(Strategy::kZero1), 1u);
  const MemoryCorrection& one = lessons.corrections.at(Strategy::kZero1);
  EXPECT_DOUBLE_EQ(one.factor, 1.25) << "the median of 25/20, 24/20, 50/20";
  EXPECT_EQ(one.runs, 3);
  EXPECT_FALSE(one.own);
  // A library that takes the whole card, and a run that found nothing to do, teach nothing.
  EXPECT_TRUE(LessonsOf({Took(500)}, Asked()).corrections.empty());
  EXPECT_TRUE(LessonsOf({Took(1)}, Asked()).corrections.empty());
}

TEST(MemoryLessons, TheOwnRunsBeatThoseOfOthers) {
  MeasuredRun own = Took(20);
  own.script = Asked().script;
  const auto lessons = LessonsOf({own, Took(40), Took(40), Took(40)}, Asked());
  const MemoryCorrection& one = lessons.corrections.at(Strategy::kZero1);
  EXPECT_TRUE(one.own);
  EXPECT_DOUBLE_EQ(one.factor, 0.5);
}

TEST(MemoryLessons, OfAnotherKeyOrOfStatesAloneLearnNothing) {
  for (const auto field : {&MeasuredRun::architecture, &MeasuredRun::framework,
                           &MeasuredRun::strategy, &MeasuredRun::device}) {
    MeasuredRun other = Took(40);
    other.*field = "H100";
    EXPECT_EQ(LessonsOf({other}, Asked()).corrections.count(Strategy::kZero1), 0u);
  }
  MeasuredRun states = Took(40);
  states.cold_fixed_gib = 29.9;
  EXPECT_TRUE(LessonsOf({states}, Asked()).corrections.empty()) << "a tenth of a GiB tells nothing";
  MeasuredRun probe = Took(40);
  probe.probe.emplace();
  EXPECT_TRUE(LessonsOf({probe}, Asked()).corrections.empty());
}

TEST(MemoryLessons, ACorrectionScalesWhatGrowsAndKeepsTheStates) {
  const auto cluster = Cluster("a100-80x8");
  JobSpec job = Llama();
  job.strategy = Strategy::kZero1;
  job.batch = {64, 1, {}};
  const auto cold = PlanWith(job, cluster, {});
  ASSERT_TRUE(cold) << ErrorOf(cold);
  const MeasuredRun& named = cold->plan.run;
  ASSERT_TRUE(named.cold_peak_gib && named.cold_fixed_gib);
  EXPECT_NEAR(*named.cold_peak_gib, *cold->plan.memory.peak_gib, 0.02);
  MeasuredRun other = named;
  other.job = "another";
  other.script = "fedcba9876543210";
  other.peak_gib = *named.cold_fixed_gib + 1.3 * (*named.cold_peak_gib - *named.cold_fixed_gib);
  const auto corrected = PlanWith(job, cluster, {other, other, other});
  ASSERT_TRUE(corrected) << ErrorOf(corrected);
  const Plan& plan = corrected->plan;
  EXPECT_EQ(plan.memory.basis, Basis::kCold);
  if (plan.checkpointing == cold->plan.checkpointing)
    EXPECT_NEAR(*plan.memory.peak_gib, *other.peak_gib, 0.05 * *other.peak_gib);
  EXPECT_NEAR(SumOfPeak(plan), *plan.memory.peak_gib, 0.02);
  EXPECT_NEAR(*plan.run.cold_peak_gib - *plan.run.cold_fixed_gib,
              *named.cold_peak_gib - *named.cold_fixed_gib, 0.5)
      << "what the formula said is kept, or corrections would compound";
  EXPECT_TRUE(Contains(plan.memory.assumptions.back(), "times 1.3 as 3 runs"))
      << plan.memory.assumptions.back();
}

TEST(MemoryLessons, WhatRunsTookDecidesWhichPlanIsChosen) {
  const auto cluster = Cluster("a100-80x8");
  const auto cold = PlanWith(Llama(), cluster, {});
  ASSERT_TRUE(cold) << ErrorOf(cold);
  MeasuredRun full = cold->plan.run;  // the way that was chosen did not leave room
  full.peak_gib = 79;
  const auto next = PlanWith(Llama(), cluster, {full});
  ASSERT_TRUE(next) << ErrorOf(next);
  const bool same = next->plan.strategy == cold->plan.strategy &&
                    next->plan.batch == cold->plan.batch &&
                    next->plan.checkpointing == cold->plan.checkpointing;
  EXPECT_FALSE(same) << "79 GiB of 79 is tight: something with room is taken";
}

TEST(MemoryLessons, AWholeRunOfTheSameBatchIsTheFigure) {
  const auto cluster = Cluster("a100-80x8");
  JobSpec job = Llama();
  job.strategy = Strategy::kZero1;
  job.batch = {64, 1, {}};
  const auto cold = PlanWith(job, cluster, {});
  ASSERT_TRUE(cold) << ErrorOf(cold);
  MeasuredRun run = cold->plan.run;
  run.peak_gib = *cold->plan.memory.peak_gib + 3;
  const auto next = PlanWith(job, cluster, {run});
  ASSERT_TRUE(next) << ErrorOf(next);
  EXPECT_EQ(next->plan.memory.basis, Basis::kMeasured);
  EXPECT_NEAR(*next->plan.memory.peak_gib, *run.peak_gib, 0.01);
  EXPECT_NEAR(SumOfPeak(next->plan), *next->plan.memory.peak_gib, 0.01);
}

MeasuredRun ProbedAt(MeasuredRun run, std::int64_t micro, double gib) {
  run.probe = ProbePoint{micro, 2, false, 0, gib * kGiBytes, kGiBytes, 0.1};
  return run;
}

TEST(MemoryLessons, AProbeIsRememberedByTheSameProgramAlone) {
  JobSpec job = Job();
  job.device = DeviceChoice::kCpu;
  job.batch = {64, 8, {}};
  job.steps = 10;
  const auto cluster = Cluster("cpu");
  const auto unknown = PlanWith(job, cluster, {});
  ASSERT_TRUE(unknown) << ErrorOf(unknown);
  EXPECT_FALSE(unknown->plan.memory.peak_gib);
  const MeasuredRun named = unknown->plan.run;
  const std::vector<MeasuredRun> probes = {ProbedAt(named, 1, 2), ProbedAt(named, 4, 2.6)};
  const auto known = PlanWith(job, cluster, probes);
  ASSERT_TRUE(known) << ErrorOf(known);
  EXPECT_EQ(known->plan.memory.basis, Basis::kProbed);
  EXPECT_EQ(known->plan.duration.basis, Basis::kProbed);
  EXPECT_NEAR(*known->plan.memory.peak_gib, 1.8 + 8 * 0.2, 1e-3);
  EXPECT_EQ(FindingOf(known->plan, "memory_unknown"), nullptr);

  job.env = {{"HIDDEN", "8192"}};  // may be another model
  const auto changed = PlanWith(job, cluster, probes);
  ASSERT_TRUE(changed) << ErrorOf(changed);
  EXPECT_FALSE(changed->plan.memory.peak_gib);
  const Finding* finding = FindingOf(changed->plan, "memory_unknown");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(Contains(finding->says,
                       "last time micro-batch 4 on 1 rank took 2.6 GiB a rank (a "
                       "probe), before its command, environment or model changed"))
      << finding->says;
  EXPECT_TRUE(Contains(finding->remedy, "--probe"));
}

TEST(ProgramDigest, IsThatOfTheProgramWhateverTheBatchAndThePlan) {
  JobSpec job = Llama();
  const std::string digest = DigestOfProgram(job, Context());
  EXPECT_EQ(digest.size(), 16u);
  Plan plan;
  plan.strategy = Strategy::kZero2;
  plan.checkpointing = "full";
  JobSpec probe = AsProbe(job, 4, plan);
  probe.batch = {{}, 2, 8};
  probe.name = "renamed";
  EXPECT_EQ(DigestOfProgram(probe, Context()), digest);

  JobSpec other = job;
  other.run += " --hidden 8192";
  EXPECT_NE(DigestOfProgram(other, Context()), digest);
  other = job;
  other.model.fields["seq_len"] = "4096";
  EXPECT_NE(DigestOfProgram(other, Context()), digest);
  SubmitContext context = Context();
  context.files["config.json"] = "{}";
  EXPECT_NE(DigestOfProgram(job, context), digest);
}

}  // namespace
}  // namespace launch
