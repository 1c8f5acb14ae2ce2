#include "planner/choose/what_if.h"

#include <gtest/gtest.h>

#include "planner/choose/change_words.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

ChoiceInput Changed(const char* text) {
  ChoiceInput input;
  input.limits.batch = {64, {}, {}};
  const auto applied = ApplyChange(text, input);
  EXPECT_TRUE(applied) << (applied ? "" : applied.error().message);
  return input;
}

std::string Refusal(const char* text) {
  ChoiceInput input;
  const auto applied = ApplyChange(text, input);
  return applied ? "" : applied.error().message + " / " + applied.error().hint;
}

Result<PlannedRun> Asked(const JobSpec& job, const std::vector<NodeInventory>& nodes,
                         std::vector<std::string> questions) {
  const auto offers = Offers(nodes);
  const auto placed = Place(job, offers);
  EXPECT_TRUE(placed);
  PlanQuestions ask;
  ask.explain = true;
  ask.what_if = std::move(questions);
  return MakePlan({job, Context(), ReadLineOf(job, {}), offers, *placed, {}, "ana", ask});
}

TEST(WhatIf, TakesEveryPartOfABatchInAnyOrder) {
  const BatchSpec both = {std::nullopt, 4, 2};
  EXPECT_EQ(Changed("batch.micro=4,batch.accumulate=2").limits.batch, both);
  EXPECT_EQ(Changed("batch.accumulate=2,batch.micro=4").limits.batch, both);
  const BatchSpec cut = {64, 4, std::nullopt};
  EXPECT_EQ(Changed("batch.micro=4").limits.batch, cut);
  const BatchSpec all = {32, 4, 2};
  EXPECT_EQ(Changed("batch.micro=4,batch.accumulate=2,batch.global=32").limits.batch, all);
}

TEST(WhatIf, KnowsTheWordsOfTheJobFile) {
  const ChoiceInput offloaded = Changed("strategy=zero2-offload");
  EXPECT_EQ(offloaded.limits.strategy, Strategy::kZero2);
  EXPECT_EQ(offloaded.limits.offload, Offload::kOptimizer);
  EXPECT_EQ(Changed("offload=auto,strategy=zero3-offload").limits.offload, Offload::kAll);
  EXPECT_EQ(Changed("model.seq_len=4096").setup.seq, 4096);
  EXPECT_EQ(Changed("model.lora.rank=8").setup.lora_rank, 8);
}

TEST(WhatIf, RefusesWhatItCannotRead) {
  const std::pair<const char*, const char*> cases[] = {
      {"garbage", "KEY=VALUE"},        {"", "asks nothing"},
      {"optimizer=zork", "optimizer"}, {"optimizer=adafator", "adafactor"},
      {"nodez=2", "nodes=2"},          {"strategy=zero2-offload,offload=none", "contradicts"},
      {"seq_len=0", "whole number"},   {"model.=2", "not something"},
  };
  for (const auto& [text, word] : cases)
    EXPECT_NE(Refusal(text).find(word), std::string::npos) << text << ": " << Refusal(text);
}

TEST(WhatIf, IsReadAndAnsweredWithoutAModelToo) {
  const JobSpec job = GpuJob(1, "A100");
  const auto run = Asked(job, {A100("a", 1)}, {"nodes=4"});
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_EQ(run->plan.changes.size(), 1u);
  EXPECT_NE(run->plan.changes[0].says.find("model.params"), std::string::npos);
  const auto garbage = Asked(job, {A100("a", 1)}, {"garbage"});
  ASSERT_FALSE(garbage);
  EXPECT_NE(garbage.error().message.find("garbage"), std::string::npos);
  const auto cpu = Asked(Job(), {Node("c")}, {"nodes=7"});
  ASSERT_TRUE(cpu) << cpu.error().message;
  ASSERT_EQ(cpu->plan.changes.size(), 1u);
  EXPECT_NE(cpu->plan.changes[0].says.find("cpu"), std::string::npos);
}

// A question about the batch keeps the plan's way, and a job file with that batch would not.
TEST(WhatIf, SaysWhatAJobFileWithThatBatchWouldBePlannedAs) {
  JobSpec job = GpuJob(1, "A100");
  job.model.fields = Llama7B();
  job.batch = {64, 1, {}};
  for (const int micro : {4, 8, 16, 32, 64}) {
    const auto run = Asked(job, {A100("a", 1)}, {"batch.micro=" + std::to_string(micro)});
    ASSERT_TRUE(run) << run.error().message;
    const Change& row = run->plan.changes.at(0);
    if (row.fits != "no") continue;
    JobSpec written = job;
    written.batch.micro = micro;
    const auto planned = Asked(written, {A100("a", 1)}, {});
    ASSERT_TRUE(planned) << planned.error().message;
    EXPECT_NE(row.says.find("written into the job it would be planned as " +
                            std::string(ToString(planned->plan.strategy))),
              std::string::npos)
        << row.says;
    return;
  }
  FAIL() << "no batch of these is too large for the GPU";
}

TEST(WhatIf, GpusOfAnotherClassTrainInTheirOwnPrecision) {
  ChoiceInput input;
  input.time.precision = Precision::kBf16;
  input.setup.format = StateFormat::kAmp;
  input.precision_is_open = true;
  ASSERT_TRUE(ApplyChange("gpu=V100", input));
  EXPECT_EQ(input.time.precision, Precision::kFp16);
  EXPECT_TRUE(input.setup.volta_context);
  ASSERT_TRUE(ApplyChange("gpu=H100", input));
  EXPECT_EQ(input.time.precision, Precision::kBf16);
  EXPECT_FALSE(input.setup.volta_context);
  input.pure_16_bit = true;
  ASSERT_TRUE(ApplyChange("gpu=A100", input));
  EXPECT_EQ(input.setup.format, StateFormat::kPure16);
}

TEST(WhatIf, APrecisionThatTheJobFixesIsRefusedWhereAGpuLacksIt) {
  JobSpec job = GpuJob(8, "A100");
  job.model.fields = Llama7B();
  job.batch = {64, {}, {}};
  const auto open = Asked(job, {A100("a", 8)}, {"gpu=V100-32GB"});
  ASSERT_TRUE(open) << open.error().message;
  EXPECT_TRUE(open->plan.changes.back().step_seconds) << open->plan.changes.back().says;
  job.precision = Precision::kBf16;
  const auto fixed = Asked(job, {A100("a", 8)}, {"gpu=V100-32GB"});
  ASSERT_TRUE(fixed) << fixed.error().message;
  EXPECT_NE(fixed->plan.changes.back().says.find("bf16 needs compute capability 8.0"),
            std::string::npos)
      << fixed->plan.changes.back().says;
}

TEST(WhatIf, TellsMemoryOfTheHostFromThatOfTheGpu) {
  JobSpec job = GpuJob(1, "A100");
  job.model.fields = Llama7B();
  job.batch = {8, {}, {}};
  const auto run = Asked(job, {A100("a", 1)}, {"lora.rank=65536,offload=all,gpu=B200"});
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_EQ(run->plan.changes.size(), 1u);
  EXPECT_EQ(run->plan.changes[0].fits, "no");
  EXPECT_NE(run->plan.changes[0].says.find("of host memory"), std::string::npos)
      << run->plan.changes[0].says;
}

}  // namespace
}  // namespace launch
