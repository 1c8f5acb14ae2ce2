#include "planner/trainer/user_choices.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

class UserChoicesTest : public ::testing::Test {
 protected:
  Result<UserChoices> Read(const std::string& run) {
    const auto line = ReadLaunchLine(run, {});
    if (!line) return Unexpected(line.error());
    return ReadUserChoices(spec_, context_, *line);
  }
  void ExpectConflict(const std::string& run, const std::vector<std::string>& words) {
    const auto choices = Read(run);
    ASSERT_FALSE(choices) << run;
    EXPECT_EQ(choices.error().code, ErrorCode::kInvalidArgument);
    for (const std::string& word : words) {
      EXPECT_NE(choices.error().message.find(word), std::string::npos)
          << word << " in: " << choices.error().message;
    }
  }

  JobSpec spec_;
  SubmitContext context_;
};

TEST_F(UserChoicesTest, TakeTheTrainersFlagsForTheJobsFields) {
  const auto choices = Read(
      "torchrun train.py --per_device_train_batch_size 4 --gradient_accumulation_steps 16 --bf16 "
      "--max_steps 100");
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->job.batch.micro, 4);
  EXPECT_EQ(choices->job.batch.accumulate, 16);
  EXPECT_EQ(choices->job.precision, Precision::kBf16);
  EXPECT_EQ(choices->precision_source, "--bf16");
  EXPECT_EQ(choices->job.steps, 100);
  EXPECT_EQ(choices->trainer, Trainer::kHf);
  ASSERT_EQ(choices->read.size(), 1u);
  EXPECT_NE(choices->read[0].find("--per_device_train_batch_size 4"), std::string::npos);
}

TEST_F(UserChoicesTest, TakeStageOffloadAndBatchFromTheFile) {
  context_.files["ds.json"] =
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": true},
          "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})";
  const auto choices = Read("torchrun train.py --deepspeed ds.json");
  ASSERT_TRUE(choices) << choices.error().message;
  EXPECT_EQ(choices->job.strategy, Strategy::kZero2);
  EXPECT_EQ(choices->job.offload, Offload::kOptimizer);
  EXPECT_EQ(choices->job.batch.global, 64);
  EXPECT_EQ(choices->job.batch.micro, 4);
  EXPECT_EQ(choices->job.precision, Precision::kFp16);
  EXPECT_EQ(choices->precision_source, "ds.json");
}

TEST_F(UserChoicesTest, NameBothPlacesThatDisagree) {
  spec_.batch.micro = 8;
  ExpectConflict("torchrun train.py --per_device_train_batch_size 4",
                 {"8", "the job file", "4", "--per_device_train_batch_size"});
  spec_.batch.micro.reset();
  context_.files["ds.json"] = R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
                                  "zero_optimization": {"stage": 3}})";
  ExpectConflict("torchrun t.py --deepspeed ds.json --per_device_train_batch_size 4",
                 {"2", "ds.json", "4"});
  ExpectConflict("torchrun t.py --deepspeed ds.json --fp16", {"fp16", "--fp16", "bf16", "ds.json"});
  spec_.strategy = Strategy::kZero2;
  ExpectConflict("torchrun t.py --deepspeed ds.json", {"zero2", "the job file", "zero3"});
}

TEST_F(UserChoicesTest, TakeTheShardingOfTheFsdpFlag) {
  const std::string line = "torchrun t.py --per_device_train_batch_size 2 --fsdp ";
  auto choices = Read(line + "'full_shard auto_wrap'");
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->job.strategy, Strategy::kFsdp);
  EXPECT_EQ(choices->job.offload, Offload::kNone);
  choices = Read(line + "'shard_grad_op offload'");
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->job.strategy, Strategy::kFsdpGradOp);
  EXPECT_EQ(choices->job.offload, Offload::kAll);
  spec_.strategy = Strategy::kZero2;
  ExpectConflict(line + "full_shard", {"zero2", "the job file", "--fsdp full_shard"});
}

TEST_F(UserChoicesTest, AFileWithoutZeroIsPlainDataParallel) {
  for (const char* zero : {R"("zero_optimization": {"stage": 0}, )", ""}) {
    context_.files["ds.json"] =
        std::string("{") + zero + R"("bf16": {"enabled": true}, "train_batch_size": 8})";
    const auto choices = Read("deepspeed train.py --deepspeed_config ds.json");
    ASSERT_TRUE(choices);
    EXPECT_EQ(choices->job.strategy, Strategy::kDdp) << zero;
    EXPECT_EQ(choices->job.precision, Precision::kBf16);
  }
  context_.files["ds.json"] = R"({"zero_optimization": {"stage": 2}})";
  const auto wide = Read("deepspeed train.py --deepspeed_config ds.json");
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->job.precision, Precision::kFp32) << "the engine's own, without bf16 and fp16";
}

TEST_F(UserChoicesTest, AFileThatIsNotThereIsNamed) {
  const auto choices = Read("deepspeed train.py --deepspeed_config gone.json");
  ASSERT_TRUE(choices);
  ASSERT_EQ(choices->findings.size(), 1U);
  EXPECT_EQ(choices->findings[0].code, "ds_config_unread");
  EXPECT_EQ(choices->findings[0].says.rfind("gone.json", 0), 0U);
}

TEST_F(UserChoicesTest, EpochsOfFlagAndJobMustAgree) {
  spec_.dataset = DatasetSpec{1000, 3};
  const std::string line = "python t.py --per_device_train_batch_size 2 --num_train_epochs ";
  ExpectConflict(line + "5", {"3 in the job file", "--num_train_epochs 5"});
  spec_.dataset = DatasetSpec{.samples = 1000};
  const auto choices = Read(line + "5");
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->job.dataset->epochs, 5);
  spec_.dataset = DatasetSpec{1'000'000'000'000, 999'999'999};
  ExpectConflict("python t.py", {"1000000000000 samples", "1e15"});
}

TEST_F(UserChoicesTest, LeaveTheFlagsOfAnUnknownScriptToIt) {
  spec_.batch.micro = 8;
  const auto choices = Read("torchrun train.py --gradient_accumulation_steps 3 --fp16");
  ASSERT_TRUE(choices);
  EXPECT_FALSE(choices->job.batch.accumulate);
  EXPECT_EQ(choices->job.precision, Precision::kAuto);
}

TEST_F(UserChoicesTest, WantATrainerThatFillsInAuto) {
  context_.files["ds.json"] = R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"}})";
  EXPECT_TRUE(Read("torchrun t.py --deepspeed ds.json"));
  ExpectConflict("torchrun t.py --deepspeed --deepspeed_config ds.json",
                 {"ds.json", "train_batch_size", "bf16.enabled"});
  spec_.trainer = Trainer::kPlain;
  ExpectConflict("torchrun t.py --deepspeed ds.json", {"auto"});
}

TEST_F(UserChoicesTest, RefuseAFileThatIsNoConfiguration) {
  context_.files["ds.json"] = "stage: 2";
  ExpectConflict("torchrun t.py --deepspeed ds.json", {"ds.json", "not JSON"});
  EXPECT_TRUE(Read("torchrun t.py --deepspeed elsewhere.json"));
}

}  // namespace
}  // namespace launch
