#include <gtest/gtest.h>

#include "planner/line/accelerate_flags.h"
#include "planner/line/launch_line.h"

namespace launch {
namespace {

constexpr const char* kZero3 =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\ndowncast_bf16: 'no'\n"
    "mixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\nuse_cpu: false\n"
    "main_process_ip: null\ndeepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\n"
    "  offload_param_device: cpu\n  gradient_accumulation_steps: 2\n  zero3_init_flag: true\n";

TEST(Accelerate, AFlagBeatsTheFile) {
  LaunchLineOptions options;
  options.files["ds.yaml"] = kZero3;
  const auto line = ReadLaunchLine(
      "accelerate launch --config_file ds.yaml --zero_stage 2 --num_processes 8 t.py", options);
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_EQ(line->procs_number, 4) << "num_processes is a total over machines";
  EXPECT_EQ(line->nodes_min, 2);
  const auto choices = ChoicesOf(*line->accelerate);
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->strategy, Strategy::kZero2);
  EXPECT_EQ(choices->strategy_place, "--zero_stage 2");
  EXPECT_EQ(choices->offload, Offload::kOptimizer) << "parameters move at stage 3 only";
  EXPECT_EQ(choices->precision, Precision::kBf16);
  EXPECT_EQ(choices->accumulate, 2);
  EXPECT_EQ(line->env.at("ACCELERATE_DEEPSPEED_ZERO_STAGE"), "2");
  EXPECT_EQ(line->env.at("ACCELERATE_USE_DEEPSPEED"), "true");
  EXPECT_EQ(line->env.at("ACCELERATE_DEEPSPEED_ZERO3_INIT"), "true");
  EXPECT_EQ(line->env.count("ACCELERATE_DEEPSPEED_CONFIG_FILE"), 0U);
}

TEST(Accelerate, FsdpSettingsBecomeTheVariablesOfItsPlugin) {
  LaunchLineOptions options;
  options.files["f.yaml"] =
      "distributed_type: FSDP\nnum_processes: 4\nfsdp_config:\n  fsdp_offload_params: false\n"
      "  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n";
  const auto line = ReadLaunchLine("accelerate launch --config_file f.yaml t.py", options);
  ASSERT_TRUE(line) << FormatError(line.error());
  const auto choices = ChoicesOf(*line->accelerate);
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->strategy, Strategy::kFsdpGradOp);
  EXPECT_EQ(choices->offload, Offload::kNone);
  EXPECT_EQ(line->env.at("FSDP_TRANSFORMER_CLS_TO_WRAP"), "LlamaDecoderLayer");
  EXPECT_EQ(line->env.at("FSDP_OFFLOAD_PARAMS"), "false");
  EXPECT_EQ(line->env.at("ACCELERATE_USE_FSDP"), "true");
}

TEST(Accelerate, Fsdp2ShardsByWhetherItReshards) {
  const auto settings = ReadAccelerateConfig(
      "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false}\n",
      "f.yaml");
  ASSERT_TRUE(settings);
  EXPECT_EQ(ChoicesOf(*settings)->strategy, Strategy::kFsdpGradOp);
}

TEST(Accelerate, OnTheCpuItStartsNeitherDeepspeedNorFsdp) {
  const auto settings =
      ReadAccelerateConfig("distributed_type: FSDP\nuse_cpu: true\nnum_processes: 2\n", "f.yaml");
  ASSERT_TRUE(settings);
  EXPECT_EQ(KindOf(*settings), AccelerateKind::kPlain);
  EXPECT_TRUE(AccelerateEnvironment(*settings).empty());
  const auto line = ReadLaunchLine("accelerate launch --cpu --num_processes 2 t.py", {});
  ASSERT_TRUE(line);
  EXPECT_FALSE(line->on_cpu.empty());
  EXPECT_EQ(line->procs_number, 2);
}

TEST(Accelerate, TheUsersDefaultFileCountsWhenNoneIsNamed) {
  LaunchLineOptions options;
  options.files[std::string(kAccelerateDefaultFile)] =
      "distributed_type: MULTI_GPU\nnum_processes: 4\nmixed_precision: 'no'\n";
  const auto line = ReadLaunchLine("accelerate launch t.py", options);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->procs_number, 4);
  EXPECT_EQ(ChoicesOf(*line->accelerate)->strategy, Strategy::kDdp);
  EXPECT_EQ(ChoicesOf(*line->accelerate)->precision, Precision::kFp32);
}

TEST(Accelerate, KeysThatTheRealProgramStopsAtAreSaid) {
  LaunchLineOptions options;
  options.files["a.yaml"] =
      "distributed_type: MULTI_GPU\nnum_processes: 2\nnum_machines: 1\nbogus_key: 1\n"
      "downcast_bf16: 'no'\ntpu_env: []\n";
  const auto said = [&](const std::string& run) {
    const auto line = ReadLaunchLine(run, options);
    EXPECT_TRUE(line);
    for (const Finding& one : line->warnings)
      if (one.code == "accelerate_keys_unknown") return one.says;
    return std::string();
  };
  const std::string expected =
      "a.yaml: bogus_key is not a setting of accelerate, which would stop there: ignored";
  EXPECT_EQ(said("accelerate launch --config_file a.yaml t.py"), expected);
  EXPECT_EQ(said("set -e\npython prep.py\naccelerate launch --config_file a.yaml t.py"), expected);
  options.files["a.yaml"] = "distributed_type: MULTI_GPU\nnum_processes: 2\nfp16: true\n";
  EXPECT_EQ(said("accelerate launch --config_file a.yaml t.py"), "");
}

TEST(Accelerate, NamesTheWordsThatItWouldRefuse) {
  const auto precision = ReadAccelerateConfig("mixed_precision: bf8\n", "f.yaml");
  ASSERT_TRUE(precision);
  const auto refused = ChoicesOf(*precision);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("mixed_precision in f.yaml"), std::string::npos);
  EXPECT_FALSE(ReadAccelerateConfig("- a\n", "f.yaml"));
  EXPECT_FALSE(ReadAccelerateConfig("a: [", "f.yaml"));
}

}  // namespace
}  // namespace launch
