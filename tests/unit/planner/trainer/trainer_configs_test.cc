#include "planner/trainer/trainer_configs.h"

#include <gtest/gtest.h>

#include "planner/line/deepspeed_config.h"

namespace launch {
namespace {

Plan SomePlan() {
  Plan plan;
  plan.strategy = Strategy::kZero2;
  plan.offload = Offload::kOptimizer;
  plan.device = DeviceClass::kCuda;
  plan.precision = Precision::kBf16;
  plan.batch = {64, 4, 4};
  plan.world_size = 4;
  plan.processes = {4, 4, 8};
  return plan;
}

TEST(TrainerConfigs, WriteTheNumbersOfThePlan) {
  const Plan plan = SomePlan();
  const TrainerConfigs configs = MakeTrainerConfigs({}, plan, 4096);
  ASSERT_EQ(configs.files.size(), 1u);
  EXPECT_EQ(configs.files[0].name, kDeepspeedFile);
  const auto read = ReadDeepspeedConfig(configs.files[0].bytes, "generated", ConfigReader::kJson);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->stage, 2);
  EXPECT_EQ(read->offload, Offload::kOptimizer);
  EXPECT_EQ(read->train_batch, 64);
  EXPECT_EQ(read->precision, Precision::kBf16);
  EXPECT_TRUE(read->automatic.empty());
}

TEST(TrainerConfigs, LeaveTheUsersOwnFileAlone) {
  UserChoices choices;
  choices.flags.deepspeed = Flag<std::string>{"ds.json", "--deepspeed ds.json"};
  EXPECT_TRUE(MakeTrainerConfigs(choices, SomePlan(), 0).files.empty());
}

TEST(TrainerConfigs, SayThatDeepspeedWantsTheBatch) {
  Plan plan = SomePlan();
  plan.batch = {};
  const TrainerConfigs configs = MakeTrainerConfigs({}, plan, 0);
  EXPECT_TRUE(configs.files.empty());
  ASSERT_EQ(configs.findings.size(), 1u);
  EXPECT_EQ(configs.findings[0].code, "plan_cannot_reach_script");
}

TEST(TrainerConfigs, WriteAcceleratesFileForItsTrainer) {
  Plan plan = SomePlan();
  plan.strategy = Strategy::kFsdpHybrid;
  plan.offload = Offload::kNone;
  plan.trainer = Trainer::kAccelerate;
  plan.checkpointing = "full";
  const TrainerConfigs configs = MakeTrainerConfigs({}, plan, 0);
  ASSERT_EQ(configs.files.size(), 1u);
  EXPECT_EQ(configs.files[0].name, kAccelerateFile);
  for (const char* line :
       {"distributed_type: FSDP\n", "mixed_precision: bf16\n", "num_processes: 4\n",
        "num_machines: 1\n", "  fsdp_sharding_strategy: HYBRID_SHARD\n",
        "  fsdp_activation_checkpointing: true\n", "  fsdp_offload_params: false\n"}) {
    EXPECT_NE(configs.files[0].bytes.find(line), std::string::npos) << line;
  }
  plan.strategy = Strategy::kSingle;
  plan.world_size = 1;
  plan.processes = {1, 1, 8};
  plan.precision = Precision::kFp32;
  const auto single = MakeTrainerConfigs({}, plan, 0);
  EXPECT_NE(single.files[0].bytes.find("distributed_type: NO\nmixed_precision: 'no'\n"),
            std::string::npos);
}

}  // namespace
}  // namespace launch
