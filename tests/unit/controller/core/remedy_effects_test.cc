// What each remedy against an out-of-memory error is said to give: only what was predicted.
#include "controller/core/remedy_effects.h"

#include <gtest/gtest.h>

namespace launch::controller {
namespace {

bool Says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

Fallback Row(Strategy strategy, Offload offload, const std::string& checkpointing,
             std::int64_t micro, double peak_gib) {
  Fallback row;
  row.strategy = strategy;
  row.offload = offload;
  row.checkpointing = checkpointing;
  row.batch = {64, micro, 64 / micro};
  row.peak_gib = peak_gib;
  return row;
}

struct RemedyEffects : testing::Test {
  RemedyEffects() {
    failed.strategy = Strategy::kDdp;
    failed.offload = Offload::kNone;
    failed.checkpointing = "none";
    failed.world_size = 2;
    failed.batch = {64, 16, 2};
    failed.memory.peak_gib = 41;
    failed.fallbacks = {Row(Strategy::kDdp, Offload::kNone, "none", 8, 30.4),
                        Row(Strategy::kDdp, Offload::kNone, "full", 16, 28.2),
                        Row(Strategy::kZero2, Offload::kOptimizer, "none", 16, 20)};
    verdict.label = "cuda_oom";
  }
  std::string Text() const { return EffectsOfRemedies(spec, failed, so_far, verdict); }
  JobSpec spec;
  Plan failed;
  PlanChange so_far;
  Verdict verdict;
};

TEST_F(RemedyEffects, EachStepHasItsOwnPrediction) {
  EXPECT_EQ(Text(),
            "1. smaller micro-batch with accumulation: micro-batch 8, peak 30.4 GiB instead of "
            "41.0; 2. activation checkpointing (20-30 % more time): peak 28.2 GiB instead of 41.0; "
            "3. a higher stage of ZeRO or FSDP: no such plan is predicted to fit; 4. offload: peak "
            "20.0 GiB instead of 41.0");
}

TEST_F(RemedyEffects, WhatThePlanHasAlreadyIsNotOffered) {
  failed.checkpointing = "full";
  failed.batch.micro = 1;
  failed.world_size = 1;
  const std::string text = Text();
  EXPECT_FALSE(Says(text, "checkpointing")) << text;
  EXPECT_FALSE(Says(text, "micro-batch")) << text;
  EXPECT_FALSE(Says(text, "stage")) << "one rank divides nothing: " << text;
  EXPECT_TRUE(Says(text, "1. offload")) << text;
}

TEST_F(RemedyEffects, ARowThatGivesUpWhatThePlanHasIsNoRemedy) {
  failed.checkpointing = "full";
  EXPECT_TRUE(Says(Text(), "1. smaller micro-batch with accumulation: no such plan is predicted"))
      << Text();
  so_far.left = {Row(Strategy::kDdp, Offload::kNone, "full", 4, 26.6)};
  EXPECT_TRUE(Says(Text(), "micro-batch 4, peak 26.6 GiB")) << Text();
}

TEST_F(RemedyEffects, WhatTheJobFixesIsSaidInsteadOfNothingFits) {
  spec.strategy = Strategy::kDdp;
  spec.model.fields["activation_checkpointing"] = "none";
  failed.fallbacks.clear();
  const std::string text = Text();
  EXPECT_TRUE(Says(text, "not predicted: the job fixes model.activation_checkpointing")) << text;
  EXPECT_TRUE(Says(text, "stage of ZeRO or FSDP: not predicted: the job fixes strategy")) << text;
}

TEST_F(RemedyEffects, TheAllocatorIsNoRemedyWhereItIsSetAlready) {
  verdict.label = "cuda_oom_fragmentation";
  EXPECT_TRUE(Says(Text(), "1. allocator")) << Text();
  spec.env.push_back({"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64"});
  EXPECT_FALSE(Says(Text(), "allocator")) << Text();
}

TEST_F(RemedyEffects, WithoutAModelNothingIsPredicted) {
  failed.memory.peak_gib.reset();
  EXPECT_TRUE(Says(Text(), "1. smaller micro-batch with accumulation: not predictable: model"));
  verdict.label = "host_oom_kill";
  EXPECT_EQ(Text(), "");
}

}  // namespace
}  // namespace launch::controller
