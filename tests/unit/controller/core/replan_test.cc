// The next plan after a GPU out-of-memory error: less memory, same global batch, never twice.
#include "controller/core/replan.h"

#include <gtest/gtest.h>

namespace launch::controller {
namespace {

constexpr char kFollows[] =
    "python train.py --micro $LAUNCH_MICRO_BATCH --accum $LAUNCH_GRAD_ACCUM";

JobSpec Job(const std::string& run = kFollows) {
  JobSpec spec;
  spec.name = "train";
  spec.run = run;
  spec.workdir = "/home/ana";
  return spec;
}

Plan Failed(std::int64_t micro, std::int64_t accumulate) {
  Plan plan;
  plan.strategy = Strategy::kDdp;
  plan.checkpointing = "none";
  plan.batch = {micro * accumulate, micro, accumulate};
  return plan;
}

Verdict TooLarge() {
  Verdict verdict;
  verdict.label = "cuda_oom";
  verdict.confidence = Confidence::kLikely;
  verdict.action = "retry_with_change";
  return verdict;
}

Verdict Fragmented(double share) {
  Verdict verdict = TooLarge();
  verdict.label = "cuda_oom_fragmentation";
  verdict.numbers["reserve_share"] = share;
  return verdict;
}

Fallback Planned(Strategy strategy, const std::string& checkpointing, std::int64_t micro,
                 std::int64_t accumulate) {
  Fallback fallback;
  fallback.strategy = strategy;
  fallback.checkpointing = checkpointing;
  fallback.batch = {micro * accumulate, micro, accumulate};
  fallback.peak_gib = 30;
  return fallback;
}

TEST(Replan, HalvesTheMicroBatchAndKeepsTheGlobalOne) {
  const NextPlan next = ReplanAfter(Job(), {}, {}, Failed(4, 2), TooLarge());
  ASSERT_TRUE(next.change.has_value());
  EXPECT_EQ(next.change->micro, 2);
  EXPECT_EQ(next.change->global, 8);
  EXPECT_FALSE(next.change->expandable_segments);
  EXPECT_NE(next.text.find("micro-batch 4 -> 2, accumulation 2 -> 4"), std::string::npos);
  const JobSpec changed = WithChange(Job(), *next.change);
  EXPECT_EQ(changed.batch, (BatchSpec{8, 2, std::nullopt}));
}

// A file that the command names says what the command itself may leave open.
TEST(Replan, AFileOfDeepspeedThatFixesTheBatchIsNotOverruled) {
  const JobSpec job = Job("deepspeed train.py --deepspeed ds.json");
  JobSpec told = job;
  told.on_oom = OnOom::kReplan;
  SubmitContext context;
  context.files["ds.json"] =
      R"({"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}})";
  Plan failed = Failed(4, 2);
  failed.fallbacks = {Planned(Strategy::kZero3, "none", 4, 2)};
  const NextPlan next = ReplanAfter(told, context, {}, failed, TooLarge());
  EXPECT_FALSE(next.change.has_value()) << "neither batch nor stage are ours";
  EXPECT_NE(next.text.find("written into ds.json"), std::string::npos) << next.text;
  context.files["ds.json"] = R"({"zero_optimization": {"stage": 2}})";
  EXPECT_EQ(ReplanAfter(told, context, {}, failed, TooLarge()).change->micro, 2);
}

// What that trainer would take by itself was said by nobody: launch writes the flags.
TEST(Replan, TheDefaultsOfTheHuggingFaceTrainerAreNotTheUsers) {
  JobSpec spec = Job("python train.py --model_name_or_path gpt2 --output_dir out");
  spec.trainer = Trainer::kHf;
  spec.batch.micro = 4;
  Plan failed = Failed(4, 2);
  failed.trainer = Trainer::kHf;
  EXPECT_EQ(ReplanAfter(spec, {}, {}, failed, TooLarge()).change->micro, 2);
  spec.run += " --per_device_train_batch_size 4";
  EXPECT_FALSE(ReplanAfter(spec, {}, {}, failed, TooLarge()).change.has_value());
}

TEST(Replan, TakesOnlyDivisorsOfTheSamplesOfAStep) {
  EXPECT_EQ(ReplanAfter(Job(), {}, {}, Failed(5, 3), TooLarge()).change->micro, 1);
  EXPECT_EQ(ReplanAfter(Job(), {}, {}, Failed(6, 1), TooLarge()).change->micro, 3);
  EXPECT_FALSE(ReplanAfter(Job(), {}, {}, Failed(1, 8), TooLarge()).change.has_value());
}

TEST(Replan, FragmentationGetsTheAllocatorFirstAndWithLittleReserveTheSmallerBatchToo) {
  const NextPlan alone = ReplanAfter(Job(), {}, {}, Failed(4, 2), Fragmented(0.25));
  ASSERT_TRUE(alone.change.has_value());
  EXPECT_TRUE(alone.change->expandable_segments);
  EXPECT_FALSE(alone.change->micro.has_value());
  const NextPlan both = ReplanAfter(Job(), {}, {}, Failed(4, 2), Fragmented(0.08));
  EXPECT_TRUE(both.change->expandable_segments);
  EXPECT_EQ(both.change->micro, 2);
  // And only once.
  const NextPlan again = ReplanAfter(Job(), {}, *alone.change, Failed(4, 2), Fragmented(0.25));
  EXPECT_EQ(again.change->micro, 2);
  EXPECT_EQ(again.text.find("expandable"), std::string::npos);
}

TEST(Replan, SetsBothNamesOfTheAllocatorAndNeverTheUsersOwn) {
  PlanChange change;
  change.expandable_segments = true;
  const JobSpec changed = WithChange(Job(), change);
  ASSERT_EQ(changed.env.size(), 2u);
  EXPECT_EQ(changed.env[0].name, "PYTORCH_ALLOC_CONF");
  EXPECT_EQ(changed.env[1].name, "PYTORCH_CUDA_ALLOC_CONF");
  JobSpec own = Job();
  own.env = {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"}};
  EXPECT_EQ(WithChange(own, change).env, own.env);
  const NextPlan next = ReplanAfter(own, {}, {}, Failed(4, 2), Fragmented(0.25));
  EXPECT_FALSE(next.change->expandable_segments);
  EXPECT_EQ(next.change->micro, 2);
}

TEST(Replan, ABatchWrittenIntoTheCommandIsLeftAloneAndSaidSo) {
  const JobSpec fixed = Job("python train.py --batch_size 4");
  const NextPlan size = ReplanAfter(fixed, {}, {}, Failed(4, 2), TooLarge());
  EXPECT_FALSE(size.change.has_value());
  EXPECT_NE(size.text.find("written into the command"), std::string::npos);
  const NextPlan fragmented = ReplanAfter(fixed, {}, {}, Failed(4, 2), Fragmented(0.08));
  ASSERT_TRUE(fragmented.change.has_value());
  EXPECT_FALSE(fragmented.change->micro.has_value());
  EXPECT_NE(fragmented.text.find("written into the command"), std::string::npos);
  EXPECT_FALSE(ReplanAfter(fixed, {}, *fragmented.change, Failed(4, 2), Fragmented(0.08))
                   .change.has_value());
}

TEST(Replan, AProgramThatMayReadOurVariablesIsTrustedOnlyWhenTheJobSaysSo) {
  JobSpec silent = Job("python train.py");
  EXPECT_FALSE(ReplanAfter(silent, {}, {}, Failed(4, 2), TooLarge()).change.has_value());
  silent.on_oom = OnOom::kReplan;
  EXPECT_EQ(ReplanAfter(silent, {}, {}, Failed(4, 2), TooLarge()).change->micro, 2);
}

TEST(Replan, AScriptThatReadsOurVariablesFollowsThem) {
  const JobSpec job = Job("python train.py");
  SubmitContext context;
  const auto micro_after = [&](const std::string& script) {
    context.files["train.py"] = script;
    const NextPlan next = ReplanAfter(job, context, {}, Failed(4, 2), TooLarge());
    return next.change ? next.change->micro : std::nullopt;
  };
  const std::string micro = "import os\nm = int(os.environ['LAUNCH_MICRO_BATCH'])\n";
  EXPECT_EQ(micro_after(micro + "a = int(os.environ.get(\"LAUNCH_GRAD_ACCUM\", 1))\n"), 2);
  EXPECT_EQ(micro_after(micro + "a = int(os.getenv('LAUNCH_GLOBAL_BATCH')) // m\n"), 2);
  EXPECT_EQ(micro_after(micro), std::nullopt) << "the steps would become smaller";
  EXPECT_EQ(micro_after(micro + "# os.environ['LAUNCH_GRAD_ACCUM']\n"), std::nullopt);
  EXPECT_EQ(micro_after(micro + "os.environ['LAUNCH_GRAD_ACCUM'] = '2'\n"), std::nullopt);
  context.files["train.py"] = "import os\na = os.environ['LAUNCH_GRAD_ACCUM']\n";
  const JobSpec shared = Job("python train.py --micro $LAUNCH_MICRO_BATCH");
  EXPECT_EQ(ReplanAfter(shared, context, {}, Failed(4, 2), TooLarge()).change->micro, 2);
  const JobSpec fixed = Job("python train.py --batch_size 4");
  EXPECT_FALSE(ReplanAfter(fixed, context, {}, Failed(4, 2), TooLarge()).change.has_value());
}

TEST(Replan, WithoutAGlobalBatchNothingIsHalved) {
  Plan plan = Failed(4, 2);
  plan.batch.global.reset();
  EXPECT_FALSE(ReplanAfter(Job(), {}, {}, plan, TooLarge()).change.has_value());
}

TEST(Replan, FollowsThePlannersOwnPlansAndTakesEachOnce) {
  const JobSpec spec =
      Job(std::string(kFollows) + " --strategy $LAUNCH_STRATEGY --ckpt ${LAUNCH_ACT_CKPT:-none}");
  Plan plan = Failed(4, 2);
  plan.fallbacks = {Planned(Strategy::kDdp, "none", 1, 8), Planned(Strategy::kZero2, "none", 1, 8),
                    Planned(Strategy::kZero2, "full", 1, 8)};
  NextPlan next = ReplanAfter(spec, {}, {}, plan, TooLarge());
  EXPECT_EQ(next.change->micro, 1);  // the planner knows that 2 would not fit
  EXPECT_EQ(next.change->strategy, Strategy::kDdp);

  Plan second = Failed(1, 8);
  next = ReplanAfter(spec, {}, *next.change, second, TooLarge());
  EXPECT_EQ(next.change->strategy, Strategy::kZero2);
  EXPECT_EQ(WithChange(spec, *next.change).strategy, Strategy::kZero2);

  second.strategy = Strategy::kZero2;
  next = ReplanAfter(spec, {}, *next.change, second, TooLarge());
  EXPECT_EQ(next.change->checkpointing, "full");
  EXPECT_EQ(WithChange(spec, *next.change).model.fields.at("activation_checkpointing"), "full");

  second.checkpointing = "full";
  EXPECT_FALSE(ReplanAfter(spec, {}, *next.change, second, TooLarge()).change.has_value());
}

// The fastest plan for the smaller batch may need more memory than the one that died.
TEST(Replan, KeepsWhateverThePlanThatDiedWas) {
  Plan plan = Failed(16, 4);
  plan.strategy = Strategy::kZero2;
  plan.offload = Offload::kOptimizer;
  plan.checkpointing = "full";
  plan.memory.peak_gib = 41;
  NextPlan next = ReplanAfter(Job(), {}, {}, plan, TooLarge());
  ASSERT_TRUE(next.change.has_value());
  const JobSpec changed = WithChange(Job(), *next.change);
  EXPECT_EQ(changed.batch, (BatchSpec{64, 8, std::nullopt}));
  EXPECT_EQ(changed.strategy, Strategy::kZero2);
  EXPECT_EQ(changed.offload, Offload::kOptimizer);
  EXPECT_EQ(changed.model.fields.at("activation_checkpointing"), "full");
  EXPECT_EQ(next.text, "micro-batch 16 -> 8, accumulation 4 -> 8, global batch 64 kept");
  next = ReplanAfter(Job(), {}, {}, plan, Fragmented(0.25));
  EXPECT_EQ(next.change->micro, 16) << "the allocator alone is changed";
  EXPECT_EQ(next.change->checkpointing, "full");
  EXPECT_EQ(next.text, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}

TEST(Replan, OneGpuIsNotAskedForWhereTheNextAttemptMayHaveMore) {
  Plan plan = Failed(16, 4);
  plan.strategy = Strategy::kSingle;
  plan.memory.peak_gib = 41;
  JobSpec spec = Job();
  EXPECT_EQ(ReplanAfter(spec, {}, {}, plan, TooLarge()).change->strategy, Strategy::kSingle);
  spec.nodes = {1, 4, false};
  EXPECT_FALSE(ReplanAfter(spec, {}, {}, plan, TooLarge()).change->strategy.has_value());
}

TEST(Replan, ARowOfTheFirstPlanGivesNothingBackThatWasGainedSince) {
  const JobSpec spec =
      Job(std::string(kFollows) + " --strategy $LAUNCH_STRATEGY --ckpt ${LAUNCH_ACT_CKPT:-none}");
  Plan plan = Failed(1, 8);
  plan.checkpointing = "full";
  plan.memory.peak_gib = 29;
  PlanChange so_far;
  so_far.began = true;
  so_far.left = {Planned(Strategy::kDdp, "none", 4, 2), Planned(Strategy::kZero2, "none", 4, 2)};
  const NextPlan next = ReplanAfter(spec, {}, so_far, plan, TooLarge());
  ASSERT_TRUE(next.change.has_value());
  EXPECT_EQ(next.change->strategy, Strategy::kZero2);
  EXPECT_EQ(next.change->checkpointing, "full");
  EXPECT_EQ(next.change->micro, 1);
  EXPECT_EQ(next.text, "strategy zero2 instead of ddp; predicted less than 29.0 GiB");
}

TEST(Replan, ARowThatNeedsAsMuchAsThePlanThatDiedIsLeftOut) {
  const JobSpec spec = Job(std::string(kFollows) + " --strategy $LAUNCH_STRATEGY");
  Plan plan = Failed(1, 8);
  plan.memory.peak_gib = 30;
  plan.fallbacks = {Planned(Strategy::kZero2, "none", 1, 8)};
  EXPECT_FALSE(ReplanAfter(spec, {}, {}, plan, TooLarge()).change.has_value());
  plan.memory.peak_gib = 31;
  const NextPlan next = ReplanAfter(spec, {}, {}, plan, TooLarge());
  ASSERT_TRUE(next.change.has_value());
  EXPECT_NE(next.text.find("predicted 30.0 GiB instead of 31.0"), std::string::npos) << next.text;
}

TEST(Replan, AStrategyThatCannotGetToTheProgramIsNotTried) {
  Plan plan = Failed(1, 8);
  plan.fallbacks = {Planned(Strategy::kZero2, "none", 1, 8)};
  EXPECT_FALSE(ReplanAfter(Job(), {}, {}, plan, TooLarge()).change.has_value());
}

TEST(Replan, SixteenBitsComeAfterTheMicroBatchWhereTheJobAllowsThem) {
  JobSpec spec = Job(std::string(kFollows) + " --dtype ${LAUNCH_PRECISION:-fp32}");
  spec.precision = Precision::kFp32;
  Plan plan = Failed(1, 8);
  plan.precision = Precision::kFp32;
  EXPECT_FALSE(ReplanAfter(spec, {}, {}, plan, TooLarge(), Precision::kBf16).change.has_value());
  spec.allow_precision_change = true;
  EXPECT_EQ(ReplanAfter(spec, {}, {}, Failed(4, 2), TooLarge(), Precision::kBf16).change->micro, 2);
  const NextPlan next = ReplanAfter(spec, {}, {}, plan, TooLarge(), Precision::kBf16);
  ASSERT_TRUE(next.change.has_value());
  EXPECT_EQ(next.text, "precision bf16 instead of fp32");
  EXPECT_EQ(WithChange(spec, *next.change).precision, Precision::kBf16);
  plan.precision = Precision::kBf16;
  EXPECT_FALSE(ReplanAfter(spec, {}, *next.change, plan, TooLarge(), Precision::kBf16).change);
}

TEST(Replan, WhatDoesNotGetToTheProgramIsNamed) {
  JobSpec spec = Job();
  spec.allow_precision_change = true;
  Plan plan = Failed(1, 8);
  plan.precision = Precision::kFp32;
  plan.fallbacks = {Planned(Strategy::kDdp, "full", 1, 8), Planned(Strategy::kZero2, "full", 1, 8)};
  const NextPlan next = ReplanAfter(spec, {}, {}, plan, TooLarge(), Precision::kFp16);
  EXPECT_FALSE(next.change.has_value());
  EXPECT_EQ(next.text,
            "no plan of less memory is left that gets to the program: pass it $LAUNCH_PRECISION, "
            "$LAUNCH_ACT_CKPT, $LAUNCH_STRATEGY or $LAUNCH_DS_CONFIG");
}

TEST(Replan, HostMemoryGetsFewerWorkersOnceAndTheRestStays) {
  const JobSpec spec = Job("python train.py --workers $LAUNCH_NUM_WORKERS");
  Plan plan = Failed(4, 2);
  plan.loader = {4, true, true};
  const NextPlan next = SpareHostMemory(spec, {}, {}, plan);
  ASSERT_TRUE(next.change.has_value());
  EXPECT_TRUE(next.change->fewer_workers);
  EXPECT_NE(next.text.find("workers 4 -> 2 without pinned memory"), std::string::npos);
  EXPECT_EQ(WithChange(spec, *next.change), spec);
  EXPECT_FALSE(SpareHostMemory(spec, {}, *next.change, plan).change.has_value());
  EXPECT_FALSE(SpareHostMemory(Job("python train.py"), {}, {}, plan).change.has_value());
  plan.loader = {1, false, true};
  EXPECT_FALSE(SpareHostMemory(spec, {}, {}, plan).change.has_value());
}

}  // namespace
}  // namespace launch::controller
