#include "planner/trainer/hf_flags.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

struct Case {
  LaunchLine line;
  UserChoices choices;
  Plan plan;
};

Case Read(const std::string& run, JobSpec spec = {}) {
  Case made;
  spec.run = run;
  const auto line = ReadLaunchLine(run, LineOptions(spec, {}));
  EXPECT_TRUE(line) << run;
  if (!line) return made;
  made.line = *line;
  const auto choices = ReadUserChoices(spec, {}, made.line);
  EXPECT_TRUE(choices) << (choices ? "" : choices.error().message);
  if (choices) made.choices = *choices;
  made.plan.batch = {64, 4, 4};
  made.plan.precision = Precision::kBf16;
  made.plan.device = DeviceClass::kCuda;
  return made;
}

JobSpec Hf() {
  JobSpec spec;
  spec.trainer = Trainer::kHf;
  return spec;
}

std::string Appended(Case made) {
  const std::string before = made.line.shell;
  AppendHfFlags(made.choices, made.line, made.plan);
  return made.line.shell.substr(before.size());
}

TEST(HfFlags, TheTrainersOwnBatchIsAConstraint) {
  const Case made = Read("python t.py --num_train_epochs 3 --save_strategy no");
  EXPECT_EQ(made.choices.job.batch, (BatchSpec{std::nullopt, kHfMicroBatch, kHfAccumulation}));
  ASSERT_FALSE(made.choices.read.empty());
  EXPECT_NE(made.choices.read.back().find("own defaults"), std::string::npos);
  EXPECT_NE(made.choices.read.back().find("per_device_train_batch_size 8"), std::string::npos);
}

TEST(HfFlags, OnlyWhatTheLineLeavesOpenIsTheDefault) {
  const Case made = Read("python t.py --optim adamw_torch --gradient_accumulation_steps 128", Hf());
  EXPECT_EQ(made.choices.job.batch, (BatchSpec{std::nullopt, kHfMicroBatch, 128}));
  EXPECT_EQ(made.choices.read.back().find("gradient_accumulation_steps"), std::string::npos);
}

TEST(HfFlags, WhereFlagsMayNotBeAddedADifferenceToTheDeepspeedFileIsNamed) {
  // Flags that other scripts have too: accelerate's examples take them by themselves.
  Case made = Read("python t.py --per_device_train_batch_size 4 --num_train_epochs 3");
  ASSERT_EQ(made.choices.trainer, Trainer::kHf);
  ASSERT_FALSE(TakesHfFlags(made.choices, made.line));
  made.plan.strategy = Strategy::kZero2;
  made.plan.trainer = Trainer::kHf;
  AppendHfFlags(made.choices, made.line, made.plan);
  ASSERT_EQ(made.plan.warnings.size(), 1u);
  const Finding& one = made.plan.warnings[0];
  EXPECT_EQ(one.code, "plan_cannot_reach_script");
  EXPECT_NE(one.says.find("ds_config.json says gradient_accumulation_steps 4, bf16.enabled True"),
            std::string::npos)
      << one.says;
  EXPECT_NE(one.says.find("takes gradient_accumulation_steps 1, bf16 False"), std::string::npos)
      << one.says;
  EXPECT_NE(one.remedy.find("--gradient_accumulation_steps 4 --bf16 True"), std::string::npos)
      << one.remedy;

  Case told = Read(
      "python t.py --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --bf16 "
      "--num_train_epochs 3");
  told.plan.strategy = Strategy::kZero2;
  AppendHfFlags(told.choices, told.line, told.plan);
  EXPECT_TRUE(told.plan.warnings.empty()) << "nothing is left to differ";
  Case ddp = Read("python t.py --per_device_train_batch_size 4 --num_train_epochs 3");
  ddp.plan.strategy = Strategy::kDdp;
  AppendHfFlags(ddp.choices, ddp.line, ddp.plan);
  EXPECT_TRUE(ddp.plan.warnings.empty()) << "no file, no difference";
}

TEST(HfFlags, TheJobsGlobalBatchLeavesTheSplitToThePlan) {
  JobSpec spec = Hf();
  spec.batch.global = 64;
  const Case made = Read("python t.py", spec);
  EXPECT_EQ(made.choices.job.batch, (BatchSpec{64, std::nullopt, std::nullopt}));
}

TEST(HfFlags, AVariableOfTheLineIsNoDefault) {
  const Case made = Read("python t.py --per_device_train_batch_size $BS");
  EXPECT_EQ(made.choices.job.batch, BatchSpec{});
}

TEST(HfFlags, AnotherScriptHasNoSuchDefaults) {
  EXPECT_EQ(Read("python t.py --lr 1").choices.job.batch, BatchSpec{});
  EXPECT_EQ(Read("python t.py args.json", Hf()).choices.job.batch, BatchSpec{});
}

TEST(HfFlags, ThePlansNumbersAreAppended) {
  EXPECT_EQ(Appended(Read("python t.py --optim adamw_torch --do_train", Hf())),
            " --per_device_train_batch_size $LAUNCH_MICRO_BATCH"
            " --gradient_accumulation_steps $LAUNCH_GRAD_ACCUM --bf16 True");
  JobSpec batch;
  batch.batch.global = 64;
  EXPECT_EQ(Appended(Read("python t.py --optim adamw_torch --do_train", batch)),
            " --per_device_train_batch_size $LAUNCH_MICRO_BATCH"
            " --gradient_accumulation_steps $LAUNCH_GRAD_ACCUM");
  JobSpec half;
  half.precision = Precision::kBf16;
  EXPECT_EQ(Appended(Read("python t.py --optim adamw_torch --do_train", half)), " --bf16 True");
  Case cpu = Read("python t.py", Hf());
  cpu.plan.device = DeviceClass::kCpu;
  EXPECT_NE(Appended(cpu).find("--bf16 True --use_cpu True"), std::string::npos);
  cpu.plan.precision = Precision::kFp32;
  EXPECT_EQ(Appended(cpu).find("use_cpu"), std::string::npos);
}

// What nobody asked for changes neither the arguments of a script nor what it computes.
TEST(HfFlags, AJobThatSaysNothingKeepsItsArguments) {
  const Case made = Read("torchrun t.py --num_train_epochs 3 --save_strategy no --do_train");
  ASSERT_TRUE(TakesHfFlags(made.choices, made.line));
  EXPECT_EQ(made.choices.job.precision, Precision::kFp32);
  EXPECT_EQ(Appended(made), "");
  EXPECT_EQ(Read("torchrun t.py --num_train_epochs 3 --save_strategy no --bf16 True")
                .choices.job.precision,
            Precision::kBf16);
}

TEST(HfFlags, AParserOfTheScriptsOwnIsNotTheTrainers) {
  const std::string run = "python t.py --do_train --num_train_epochs 3 --max_seq_length 128";
  JobSpec spec;
  spec.run = run;
  SubmitContext context;
  const auto line = ReadLaunchLine(run, LineOptions(spec, {}));
  ASSERT_TRUE(line);
  context.files["t.py"] = "parser = argparse.ArgumentParser()\nparser.add_argument('--do_train')\n";
  const auto own = ReadUserChoices(spec, context, *line);
  ASSERT_TRUE(own);
  EXPECT_FALSE(own->flags.hugging_face);
  EXPECT_FALSE(TakesHfFlags(*own, *line));
  context.files["t.py"] = "parser = HfArgumentParser((ModelArguments, TrainingArguments))\n";
  const auto theirs = ReadUserChoices(spec, context, *line);
  ASSERT_TRUE(theirs);
  EXPECT_TRUE(TakesHfFlags(*theirs, *line));
}

// diffusers and *_no_trainer.py take some of the trainer's flags and refuse the others.
TEST(HfFlags, AScriptWithArgumentsOfItsOwnGetsNone) {
  EXPECT_EQ(Appended(Read("accelerate launch --mixed_precision=fp16 train_text_to_image_lora.py "
                          "--num_train_epochs=100 --train_batch_size=1")),
            "");
  EXPECT_EQ(Appended(Read("python run_clm_no_trainer.py --per_device_train_batch_size 2 "
                          "--num_train_epochs 3")),
            "");
  EXPECT_EQ(Appended(Read("python train.py --optim adam")), "");
}

// With half of the batch in the user's hands, the other half would change the training.
TEST(HfFlags, ABatchWrittenWithAVariableIsLeftToTheUser) {
  const std::string added = Appended(Read("python t.py --per_device_train_batch_size $BS", Hf()));
  EXPECT_EQ(added.find("gradient_accumulation_steps"), std::string::npos) << added;
}

TEST(HfFlags, AFlagOfTheLineIsNeverRepeated) {
  EXPECT_EQ(Appended(Read("python t.py --per-device-train-batch-size=4 --fp16 "
                          "--gradient_accumulation_steps $G")),
            "");
}

TEST(HfFlags, CheckpointingOfThePlanReachesTheTrainer) {
  Case made = Read("python t.py --optim adamw_torch", Hf());
  made.plan.checkpointing = "full";
  made.plan.strategy = Strategy::kZero2;
  EXPECT_NE(Appended(made).find("--gradient_checkpointing True"), std::string::npos);
  made.plan.strategy = Strategy::kFsdp;  // by FSDP's own setting
  EXPECT_EQ(Appended(made).find("gradient_checkpointing"), std::string::npos);
}

TEST(HfFlags, AFileOfArgumentsIsLeftAloneAndSaid) {
  Case made = Read("python t.py args.json", Hf());
  AppendHfFlags(made.choices, made.line, made.plan);
  EXPECT_EQ(made.line.shell.find("--per_device"), std::string::npos);
  ASSERT_EQ(made.plan.warnings.size(), 1u);
  EXPECT_EQ(made.plan.warnings[0].code, "plan_cannot_reach_script");
}

}  // namespace
}  // namespace launch
