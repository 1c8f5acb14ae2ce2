#include "planner/choose/probe.h"

#include <gtest/gtest.h>

#include "planner/trainer/debug_plan.h"
#include "planner/trainer/probe_plan.h"

namespace launch {
namespace {

constexpr double kGb = 1024.0 * 1024 * 1024;

ProbePoint Point(std::int64_t micro, double peak_gib, double step_seconds) {
  ProbePoint point;
  point.micro = micro;
  point.accumulate = 2;
  point.peak_bytes = peak_gib * kGb;
  point.load_bytes = peak_gib * kGb / 2;
  point.static_bytes = 1 * kGb;
  point.step_seconds = step_seconds;
  return point;
}

Plan SomePlan() {
  Plan plan;
  plan.batch = {64, 8, 8};
  plan.steps = 100;
  plan.memory.limit_gib = 24;
  Finding unknown;
  unknown.code = "memory_unknown";
  plan.warnings.push_back(unknown);
  return plan;
}

TEST(Probe, TwoMicroBatchesGiveALine) {
  const auto fit = FitProbe({Point(1, 3, 0.2), Point(5, 5, 0.6)});
  ASSERT_TRUE(fit);
  EXPECT_DOUBLE_EQ(fit->sample_bytes, 0.5 * kGb);
  EXPECT_DOUBLE_EQ(fit->base_bytes, 2.5 * kGb);
  EXPECT_NEAR(fit->sample_seconds, 0.05, 1e-9);
  EXPECT_NEAR(fit->pass_seconds, 0.05, 1e-9);
  EXPECT_EQ(fit->load_bytes, 0);
}

TEST(Probe, OneMicroBatchTakesWhatStaysAsItsBase) {
  const auto fit = FitProbe({Point(2, 3, 0.4)});
  ASSERT_TRUE(fit);
  EXPECT_DOUBLE_EQ(fit->sample_bytes, 1 * kGb);
  EXPECT_DOUBLE_EQ(fit->base_bytes, 1 * kGb);
  EXPECT_FALSE(FitProbe({}));
}

TEST(Probe, MeasuredPartsTakeThePlaceOfPredictedOnes) {
  Plan plan = SomePlan();
  ApplyProbe({Point(1, 3, 0.2), Point(5, 5, 0.6)}, plan);
  ASSERT_TRUE(plan.memory.peak_gib);
  EXPECT_NEAR(*plan.memory.peak_gib, 2.5 + 8 * 0.5, 1e-3);
  EXPECT_EQ(plan.memory.basis, Basis::kProbed);
  EXPECT_EQ(plan.memory.fits, "yes");
  double sum = 0;
  for (const PlannedTerm& term : plan.memory.terms) {
    EXPECT_EQ(term.phase, plan.memory.phase);
    sum += term.gib;
  }
  EXPECT_NEAR(sum, *plan.memory.peak_gib, 1e-9);
  EXPECT_TRUE(plan.warnings.empty());
  ASSERT_TRUE(plan.duration.step_seconds);
  EXPECT_NEAR(*plan.duration.step_seconds, 8 * (0.05 + 8 * 0.05), 1e-9);
  EXPECT_NEAR(*plan.duration.seconds, 100 * *plan.duration.step_seconds, 1e-9);
  EXPECT_EQ(plan.duration.basis, Basis::kProbed);
}

TEST(Probe, AGpuKeepsWhatTorchDoesNotCount) {
  Plan plan = SomePlan();
  plan.world_size = 2;
  ProbePoint low = Point(1, 3, 0.2);
  ProbePoint high = Point(5, 5, 0.6);
  low.gpu = high.gpu = true;
  ApplyProbe({low, high}, plan);
  ASSERT_EQ(plan.memory.terms.size(), 4u);
  EXPECT_EQ(plan.memory.terms[0].name, "CUDA context");
  EXPECT_EQ(plan.memory.terms[1].name, "communication library");
  EXPECT_GT(*plan.memory.peak_gib, 2.5 + 8 * 0.5 + 1);

  plan = SomePlan();
  plan.memory.phase = "forward";
  plan.memory.terms = {{"CUDA context", "forward", 0.6}, {"weights", "forward", 9}};
  ApplyProbe({low, high}, plan);
  EXPECT_NEAR(*plan.memory.peak_gib, 2.5 + 8 * 0.5 + 0.6, 1e-3);
}

TEST(Probe, AMeasuredDurationStays) {
  Plan plan = SomePlan();
  plan.duration.seconds = 7;
  plan.duration.basis = Basis::kMeasured;
  ApplyProbe({Point(1, 3, 0.2), Point(5, 5, 0.6)}, plan);
  EXPECT_EQ(plan.duration.seconds, 7);
  EXPECT_EQ(plan.duration.basis, Basis::kMeasured);
}

TEST(Probe, TellsWhatWillNotFitAndWhatDidNotGrow) {
  Plan plan = SomePlan();
  plan.memory.limit_gib = 6;
  ApplyProbe({Point(1, 3, 0.2), Point(5, 5, 0.6)}, plan);
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(plan.warnings[0].code, "predicted_out_of_memory");
  EXPECT_EQ(plan.memory.fits, "no");

  plan = SomePlan();
  ApplyProbe({Point(1, 3, 0.2), Point(5, 3, 0.2)}, plan);
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(plan.warnings[0].code, "plan_cannot_reach_script");
}

TEST(Probe, AStepThatWaitsForItsDataIsCalledSo) {
  ProbePoint low = Point(1, 3, 0.2);
  ProbePoint high = Point(5, 5, 0.6);
  high.loader_seconds = 0.36;
  Plan plan = SomePlan();
  plan.steps = 100;
  ApplyProbe({low, high}, plan);
  EXPECT_EQ(plan.duration.bound, "data loader");
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_EQ(plan.warnings[0].code, "loader_bound");
  EXPECT_EQ(plan.warnings[0].says, "60 % of a step waits for the data loader");
  high.loader_seconds = 0.06;
  Plan busy = SomePlan();
  ApplyProbe({low, high}, busy);
  EXPECT_EQ(busy.duration.bound, "");
}

TEST(Probe, LoadingCanBeThePeak) {
  ProbePoint low = Point(1, 3, 0.2);
  ProbePoint high = Point(2, 3.5, 0.2);
  high.load_bytes = 10 * kGb;
  Plan plan = SomePlan();
  ApplyProbe({low, high}, plan);
  EXPECT_EQ(plan.memory.phase, "load");
  EXPECT_NEAR(*plan.memory.peak_gib, 10, 1e-3);
}

TEST(ProbePlan, IsADebugRunOfOneMicroBatch) {
  Plan planned;
  planned.strategy = Strategy::kZero2;
  planned.checkpointing = "full";
  UserChoices choices;
  choices.job = AsProbe({}, 4, planned);
  choices.job.batch = {512, 16, 32};
  ASSERT_TRUE(IsProbe(choices.job));
  ApplyDebug(choices);
  EXPECT_EQ(choices.job.batch, (BatchSpec{std::nullopt, 4, kProbeAccumulate}));
  EXPECT_EQ(choices.job.steps, kProbeSteps);
  EXPECT_EQ(choices.job.strategy, Strategy::kZero2);
  EXPECT_EQ(choices.job.model.fields.at("activation_checkpointing"), "full");
  JobSpec debug;
  debug.debug = true;
  debug.model.probe = true;
  EXPECT_FALSE(IsProbe(debug));
}

TEST(ProbePlan, TheHookStandsInFrontOfTheLine) {
  LaunchLine line;
  line.shell = "exec python t.py > log 2>&1";
  WrapForProbe(line);
  EXPECT_NE(line.shell.find("export PYTHONPATH=\"${LAUNCH_PLAN_FILE%/*}"), std::string::npos);
  EXPECT_NE(line.shell.find("exec 19>&2; exec python t.py > log 2>&1"), std::string::npos);
  const GeneratedFile hook = ProbeHook(true);
  EXPECT_EQ(hook.name, "sitecustomize.py");
  EXPECT_NE(hook.bytes.find(kProbeMark), std::string::npos);
  EXPECT_NE(hook.bytes.find("_ENDS = True"), std::string::npos);
  EXPECT_NE(ProbeHook(false).bytes.find("_ENDS = False"), std::string::npos)
      << "a debug run goes on";
}

}  // namespace
}  // namespace launch
