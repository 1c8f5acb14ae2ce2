// Plans of models with a formula: refusals, mixed gangs, and what earlier runs teach.
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

TEST(Plan, WhatFitsNowhereIsRefusedWithWhatWould) {
  JobSpec job = GpuJob(1, "A100");
  job.trainer = Trainer::kPlain;
  job.model.fields = Llama7B();
  job.batch = {16, {}, {}};
  const auto run = PlanOn(job, {A100("a", 1)});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ErrorCode::kCannotFit);
  EXPECT_NE(run.error().message.find("GPU_MEM"), std::string::npos);
  EXPECT_NE(run.error().message.find("the least is"), std::string::npos);
  EXPECT_NE(run.error().hint.find("what would fit: "), std::string::npos) << run.error().hint;
  EXPECT_NE(run.error().hint.find("offload"), std::string::npos) << run.error().hint;
  EXPECT_NE(run.error().hint.find("lora.rank=16"), std::string::npos) << run.error().hint;

  job.model.fields["params"] = "700B";
  job.model.fields["layers"] = "120";
  job.model.fields["hidden"] = "22000";
  job.model.fields.erase("heads");
  const auto huge = PlanOn(job, {A100("a", 1)});
  ASSERT_FALSE(huge);
  EXPECT_NE(huge.error().hint.find("none of them alone"), std::string::npos) << huge.error().hint;
}

TEST(Plan, TheJobsOwnMemoryLimitIsTheHosts) {
  JobSpec job = GpuJob(1, "A100");
  job.model.fields = Llama7B();
  job.batch = {8, {}, {}};
  const NodeInventory node = Node("a", "NVIDIA A100-SXM4-80GB", "8.0", 81920, 1);
  const auto free = PlanOn(job, {node});
  ASSERT_TRUE(free) << ErrorOf(free);
  ASSERT_NE(free->plan.offload, Offload::kNone) << "else the host has nothing to hold";
  job.memory_bytes = Amount{20'000'000'000, false};
  const auto bounded = PlanOn(job, {node});
  ASSERT_FALSE(bounded);
  EXPECT_NE(bounded.error().message.find("HOST_MEM"), std::string::npos) << bounded.error().message;
}

TEST(Plan, ProcessesThatShareAGpuShareItsMemory) {
  JobSpec job = GpuJob(1, "H100");
  job.model.fields = Llama7B();
  job.model.fields["lora.rank"] = "16";
  job.batch = {8, 1, {}};
  job.strategy = Strategy::kDdp;
  const auto alone = PlanOn(job, {H100("h", 1)});
  ASSERT_TRUE(alone) << ErrorOf(alone);
  EXPECT_EQ(alone->plan.memory.fits, "yes");
  job.procs_per_node = 8;
  const auto shared = PlanOn(job, {H100("h", 1)});
  ASSERT_TRUE(shared) << ErrorOf(shared);
  EXPECT_NEAR(shared->plan.memory.limit_gib, alone->plan.memory.limit_gib / 8, 0.01);
  EXPECT_EQ(shared->plan.memory.fits, "no");
}

TEST(Plan, PureBf16HasNoMaster) {
  JobSpec job = GpuJob(1, "A100");
  job.model.fields = Llama7B();
  job.strategy = Strategy::kSingle;
  job.precision = Precision::kBf16;
  const NodeInventory node = Node("a", "NVIDIA A100-SXM4-80GB", "8.0", 81920, 1);
  job.batch = {1, 1, {}};
  const auto with = PlanOn(job, {node});
  ASSERT_TRUE(with) << ErrorOf(with);
  EXPECT_EQ(with->plan.memory.fits, "no");
  job.model.fields["master_weights"] = "false";
  const auto pure = PlanOn(job, {node});
  ASSERT_TRUE(pure) << ErrorOf(pure);
  EXPECT_EQ(pure->plan.memory.fits, "yes");
  EXPECT_LT(*pure->plan.memory.peak_gib, 70);
}

TEST(Plan, RecomputingThatNothingTellsTheScriptIsSaid) {
  JobSpec job = GpuJob(1, "A100");
  job.model.fields = Llama7B();
  job.model.fields.erase("activation_checkpointing");
  job.model.fields["optimizer"] = "adamw_8bit";
  job.batch = {8, {}, {}};
  const NodeInventory node = Node("a", "NVIDIA A100-SXM4-80GB", "8.0", 81920, 1);
  auto run = PlanOn(job, {node});
  ASSERT_TRUE(run) << ErrorOf(run);
  ASSERT_EQ(run->plan.checkpointing, "full");
  const Finding* finding = FindingOf(run->plan, "plan_cannot_reach_script");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->says.find("LAUNCH_ACT_CKPT"), std::string::npos) << finding->says;
  job.run += " --ckpt $LAUNCH_ACT_CKPT";
  run = PlanOn(job, {node});
  ASSERT_TRUE(run) << ErrorOf(run);
  EXPECT_EQ(FindingOf(run->plan, "plan_cannot_reach_script"), nullptr);
}

TEST(Plan, ATightPlanShowsNoMoreThanThereIs) {
  JobSpec job = GpuJob(8, "A100");
  job.model.fields = Llama7B();
  job.model.fields.erase("activation_checkpointing");
  const NodeInventory node = Node("a", "NVIDIA A100-SXM4-80GB", "8.0", 81920, 8);
  int tight = 0;
  for (const char* length : {"7000", "8000", "8750", "9000", "9500"}) {
    job.model.fields["seq_len"] = length;
    job.batch = {8, 1, {}};
    const auto run = PlanOn(job, {node});
    ASSERT_TRUE(run) << ErrorOf(run);
    const MemoryForecast& memory = run->plan.memory;
    if (memory.fits == "tight") ++tight;
    EXPECT_LE(*memory.peak_gib, memory.limit_gib) << length;
    double sum = 0;
    for (const PlannedTerm& term : memory.terms) {
      if (term.phase == memory.phase) sum += term.gib;
    }
    EXPECT_NEAR(sum, *memory.peak_gib, 0.006) << length;
  }
  EXPECT_GT(tight, 0);
}

TEST(Plan, AMixedJobShowsWhatEachClassAloneWouldTake) {
  JobSpec job = GpuJob(4, "", 2);
  job.model.fields = Llama7B();
  job.batch = {64, {}, {}};
  const std::vector<NodeInventory> mixed = {A100("a", 4), V100("v", 4)};
  const auto offers = Offers(mixed);
  const auto placed = Place(job, offers);
  ASSERT_TRUE(placed);
  PlanQuestions questions;
  questions.explain = true;
  const auto run =
      MakePlan({job, Context(), ReadLineOf(job, {}), offers, *placed, {}, "ana", questions});
  ASSERT_TRUE(run) << ErrorOf(run);
  EXPECT_EQ(run->plan.precision, Precision::kFp16) << "of the weakest";
  std::map<std::string, Change> alone;
  for (const Change& change : run->plan.changes) {
    if (change.change.rfind("only the 4 x ", 0) == 0) alone[change.change.substr(13)] = change;
  }
  ASSERT_EQ(alone.size(), 2u);
  for (const auto& [name, change] : alone) EXPECT_TRUE(change.step_seconds) << name;
  // Four of the faster kind are not held up by the slower, over a network besides.
  EXPECT_LT(*alone.begin()->second.step_seconds, *run->plan.duration.step_seconds);
  EXPECT_EQ(alone.begin()->first.rfind("A100", 0), 0u) << alone.begin()->first;
}

TEST(Plan, WithoutAModelAMixedJobIsToldTheWeakestAndWhatEachClassAloneDoes) {
  JobSpec job = GpuJob(4, "", 2);
  job.batch = {64, {}, {}};
  const std::vector<NodeInventory> mixed = {A100("a", 4), V100("v", 4)};
  const auto offers = Offers(mixed);
  const auto placed = Place(job, offers);
  ASSERT_TRUE(placed);
  PlanQuestions questions;
  questions.explain = true;
  const auto run =
      MakePlan({job, Context(), ReadLineOf(job, {}), offers, *placed, {}, "ana", questions});
  ASSERT_TRUE(run) << ErrorOf(run);
  const Plan& plan = run->plan;
  EXPECT_EQ(plan.precision, Precision::kFp16);
  const Finding* finding = FindingOf(plan, "mixed_gpus");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(Contains(finding->says, "4 x A100-40GB and 4 x V100-32GB in one job"))
      << finding->says;
  EXPECT_TRUE(Contains(finding->says, "the pace of the V100-32GB")) << finding->says;
  ASSERT_EQ(plan.changes.size(), 2u);
  EXPECT_EQ(plan.changes[0].change, "only the 4 x A100-40GB");
  EXPECT_TRUE(Contains(plan.changes[0].says, "bf16")) << plan.changes[0].says;
  EXPECT_EQ(plan.changes[1].change, "only the 4 x V100-32GB");
  EXPECT_TRUE(Contains(plan.changes[1].says, "0.5x the work of all 8")) << plan.changes[1].says;

  const auto alike = PlanOn(GpuJob(4, ""), {A100("a", 4)});
  ASSERT_TRUE(alike) << ErrorOf(alike);
  EXPECT_EQ(FindingOf(alike->plan, "mixed_gpus"), nullptr);
}

TEST(Plan, WhatTheHostCannotHoldIsRefusedWithWhatWouldFit) {
  JobSpec job = GpuJob(8, "A100-80GB");
  job.model.fields = Llama7B();
  job.batch = {64, {}, {}};
  job.strategy = Strategy::kZero2;
  job.offload = Offload::kOptimizer;
  auto nodes = Cluster("a100-80x8");
  nodes[0].memory_bytes = std::uint64_t{64} << 30;
  const auto run = PlanOn(job, nodes);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ErrorCode::kCannotFit);
  EXPECT_TRUE(Contains(run.error().message, "HOST_MEM")) << run.error().message;
  const std::string& hint = run.error().hint;
  EXPECT_TRUE(Contains(hint, "what would fit: ")) << hint;
  EXPECT_TRUE(Contains(hint, "strategy=auto,offload=auto (zero3")) << hint;
  EXPECT_TRUE(Contains(hint, "GiB of host memory, ")) << hint;
  EXPECT_TRUE(Contains(hint, "memory: ")) << hint;
}

TEST(Plan, OtherRunsOfTheSameKindCorrectAColdTime) {
  JobSpec job = GpuJob(8, "A100-80GB");
  job.model.fields = Llama7B();
  job.batch = {{}, 1, 16};
  job.steps = 100;
  const auto cluster = Cluster("a100-80x8");
  const auto cold = PlanOn(job, cluster);
  ASSERT_TRUE(cold) << ErrorOf(cold);
  ASSERT_TRUE(cold->plan.run.cold_step_seconds);
  MeasuredRun other = cold->plan.run;
  other.job = "another";
  other.step_seconds = *other.cold_step_seconds * 1.5;
  const auto offers = Offers(cluster);
  const auto placed = Place(job, offers);
  ASSERT_TRUE(placed);
  PlanQuestions questions;
  questions.history = {other, other, other};
  const auto corrected =
      MakePlan({job, Context(), ReadLineOf(job, {}), offers, *placed, {}, "ana", questions});
  ASSERT_TRUE(corrected) << ErrorOf(corrected);
  EXPECT_NEAR(*corrected->plan.duration.step_seconds, *cold->plan.duration.step_seconds * 1.5,
              1e-9);
  EXPECT_EQ(corrected->plan.run.cold_step_seconds, cold->plan.run.cold_step_seconds);
  EXPECT_EQ(corrected->plan.duration.basis, Basis::kCold);
  EXPECT_NE(corrected->plan.memory.assumptions.back().find("3 runs"), std::string::npos);

  other.job = "job";  // its own run beats what others took
  questions.history.push_back(other);
  const auto own =
      MakePlan({job, Context(), ReadLineOf(job, {}), offers, *placed, {}, "ana", questions});
  ASSERT_TRUE(own) << ErrorOf(own);
  EXPECT_EQ(own->plan.duration.basis, Basis::kMeasured);
}

TEST(Plan, MemoryThatNoFormulaKnowsIsWhatTheLastRunTook) {
  JobSpec job = Job();
  job.device = DeviceChoice::kCpu;
  job.batch = {{}, 4, {}};
  const auto cluster = Cluster("cpu");
  const auto offers = Offers(cluster);
  const auto placed = Place(job, offers);
  ASSERT_TRUE(placed);
  MeasuredRun before;
  before.job = "job";
  before.device = "cpu";
  before.micro = 4;
  before.peak_gib = 1.5;
  before.seconds = 60;
  PlanQuestions questions;
  questions.history = {before};
  const auto same =
      MakePlan({job, Context(), ReadLineOf(job, {}), offers, *placed, {}, "ana", questions});
  ASSERT_TRUE(same) << ErrorOf(same);
  EXPECT_EQ(same->plan.memory.peak_gib, 1.5);
  EXPECT_EQ(same->plan.memory.basis, Basis::kMeasured);
  const auto unknown = [](const Plan& plan) {
    for (const Finding& one : plan.warnings)
      if (one.code == "memory_unknown") return one.says + one.remedy;
    return std::string();
  };
  EXPECT_EQ(unknown(same->plan), "");
  questions.history[0].micro = 2;
  const auto other =
      MakePlan({job, Context(), ReadLineOf(job, {}), offers, *placed, {}, "ana", questions});
  ASSERT_TRUE(other) << ErrorOf(other);
  EXPECT_FALSE(other->plan.memory.peak_gib);
  EXPECT_NE(unknown(other->plan).find("last time micro-batch 2 on 1 rank took 1.5 GiB"),
            std::string::npos)
      << unknown(other->plan);
  EXPECT_NE(unknown(other->plan).find("--probe"), std::string::npos);
}

TEST(Plan, Tf32IsFp32OnTensorCoresWhereThereAreSome) {
  JobSpec job = GpuJob(1, "");
  job.precision = Precision::kTf32;
  job.model.fields = {{"params", "1.1B"},
                      {"layers", "22"},
                      {"hidden", "2048"},
                      {"vocab", "32000"},
                      {"seq_len", "2048"}};
  job.batch = {8, {}, {}};
  const auto a100 = PlanOn(job, {A100("a", 1)});
  ASSERT_TRUE(a100) << ErrorOf(a100);
  EXPECT_EQ(a100->plan.precision, Precision::kTf32);
  const auto& env = a100->plan.assignments[0].env;
  EXPECT_EQ(env.at("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"), "1");
  EXPECT_EQ(env.at("ACCELERATE_MIXED_PRECISION"), "no");
  JobSpec other = job;
  other.precision = Precision::kFp32;
  const auto fp32 = PlanOn(other, {A100("a", 1)});
  ASSERT_TRUE(fp32) << ErrorOf(fp32);
  EXPECT_EQ(fp32->plan.assignments[0].env.count("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"), 0u);
  other.precision = Precision::kBf16;
  const auto bf16 = PlanOn(other, {A100("a", 1)});
  ASSERT_TRUE(bf16) << ErrorOf(bf16);
  const double seconds = *a100->plan.duration.step_seconds;
  EXPECT_LT(seconds, 0.5 * *fp32->plan.duration.step_seconds);
  EXPECT_GT(seconds, *bf16->plan.duration.step_seconds);
  EXPECT_EQ(a100->plan.memory.peak_gib, fp32->plan.memory.peak_gib) << "numbers of four bytes";

  const auto v100 = PlanOn(job, {V100("v", 1)});
  ASSERT_FALSE(v100);
  EXPECT_EQ(v100.error().code, ErrorCode::kCannotFit);
  EXPECT_TRUE(Contains(v100.error().message, "8.0") && Contains(v100.error().message, "7.0"));
  job.gpus.clear();
  job.gpus_written = false;
  job.device = DeviceChoice::kCpu;
  const auto cpu = PlanOn(job, {Node("c")});
  ASSERT_FALSE(cpu);
  EXPECT_TRUE(Contains(cpu.error().message, "tf32 needs an NVIDIA GPU")) << cpu.error().message;
}

}  // namespace
}  // namespace launch
