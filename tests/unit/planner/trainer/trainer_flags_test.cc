#include "planner/trainer/trainer_flags.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

Result<TrainerFlags> Read(const std::string& run) {
  const auto line = ReadLaunchLine(run, {});
  if (!line) return Unexpected(line.error());
  return ReadTrainerFlags(line->arguments);
}

TEST(TrainerFlags, AreReadInEverySpelling) {
  const auto flags = Read(
      "torchrun train.py --per_device_train_batch_size 4 --gradient-accumulation-steps=16 --bf16 "
      "True --gradient_checkpointing --optim adamw_torch_fused --num_train_epochs 3 "
      "--model_max_length 1024 --deepspeed ds.json --lora_r 64 --max_steps -1");
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->micro->value, 4);
  EXPECT_EQ(flags->micro->written, "--per_device_train_batch_size 4");
  EXPECT_EQ(flags->accumulate->value, 16);
  EXPECT_EQ(flags->precision->value, Precision::kBf16);
  EXPECT_TRUE(flags->checkpointing->value);
  EXPECT_EQ(flags->optimizer->value, "adamw_torch_fused");
  EXPECT_EQ(flags->epochs->value, 3);
  EXPECT_EQ(flags->seq->value, 1024);
  EXPECT_EQ(flags->deepspeed->value, "ds.json");
  EXPECT_EQ(flags->lora_rank->value, 64);
  EXPECT_FALSE(flags->steps);
  EXPECT_TRUE(flags->hugging_face);
}

TEST(TrainerFlags, LeaveWhatOnlyTheStartKnows) {
  const auto flags =
      Read("python train.py --per_device_train_batch_size $LAUNCH_MICRO_BATCH --bf16 False");
  ASSERT_TRUE(flags);
  EXPECT_FALSE(flags->micro);
  EXPECT_FALSE(flags->precision);
  EXPECT_TRUE(flags->hugging_face);
}

TEST(TrainerFlags, LeaveTheScriptsOwnMeaningAlone) {
  const auto flags = Read("python train.py --max_length none --deepspeed --fp16 data/ -- --x");
  ASSERT_TRUE(flags);
  EXPECT_FALSE(flags->seq);
  EXPECT_FALSE(flags->deepspeed);
  EXPECT_EQ(flags->precision->value, Precision::kFp16);
  EXPECT_EQ(flags->precision->written, "--fp16");
  EXPECT_FALSE(flags->hugging_face);
}

TEST(TrainerFlags, RefuseTwoFormatsAtOnce) {
  const auto flags = Read("python train.py --bf16 --fp16 true");
  ASSERT_FALSE(flags);
  EXPECT_NE(flags.error().message.find("--bf16 and --fp16 true"), std::string::npos);
}

}  // namespace
}  // namespace launch
