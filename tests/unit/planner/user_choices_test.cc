#include "planner/user_choices.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

class UserChoicesTest : public testing::Test {
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
