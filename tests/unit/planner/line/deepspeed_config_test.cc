#include "planner/line/deepspeed_config.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

constexpr const char* kUsers = R"({
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
  "zero_optimization": {
    "stage": 2,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "reduce_bucket_size": 2e8,
    "allgather_bucket_size": 200000000
  },
  "gradient_clipping": 1.0,
  "train_micro_batch_size_per_gpu": 4
})";

std::vector<std::string> Codes(const DeepspeedConfig& config) {
  std::vector<std::string> codes;
  for (const Finding& finding : config.findings) codes.push_back(finding.code);
  return codes;
}

Result<DeepspeedConfig> Read(std::string_view text, const std::string& path) {
  return ReadDeepspeedConfig(text, path, ConfigReader::kDeepspeed);
}

TEST(DeepspeedConfig, TellsStageOffloadBucketsAndClipping) {
  const auto config = Read(kUsers, "ds.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->stage, 2);
  EXPECT_EQ(config->offload, Offload::kOptimizer);
  EXPECT_EQ(config->precision, Precision::kBf16);
  EXPECT_EQ(config->micro, 4);
  EXPECT_EQ(config->reduce_bucket, 2e8);
  EXPECT_EQ(config->automatic, std::vector<std::string>{"optimizer.params.lr"});
  EXPECT_TRUE(config->findings.empty());
  ASSERT_EQ(config->read.size(), 1u);
  EXPECT_EQ(
      config->read[0],
      "ds.json: ZeRO stage 2, optimizer offload, reduce bucket 2e8, allgather bucket 2e8, "
      "gradient clipping 1.0, bf16, micro-batch 4, optimizer AdamW, 1 values \"auto\", filled "
      "by the trainer");
}

TEST(DeepspeedConfig, TakesOffloadedParametersWithoutTheOptimizer) {
  const auto config =
      Read(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})", "ds.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->weights_alone);
  EXPECT_EQ(config->offload, Offload::kNone);
  EXPECT_EQ(config->read[0], "ds.json: ZeRO stage 3, parameter offload");
  const auto both = Read(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
                           "offload_optimizer": {"device": "cpu"}}})",
                         "ds.json");
  ASSERT_TRUE(both);
  EXPECT_FALSE(both->weights_alone);
  EXPECT_EQ(both->offload, Offload::kAll);
}

TEST(DeepspeedConfig, OffersTheNameOfAMisspelledKey) {
  const auto config =
      Read(R"({"gradient_accumulation_step": 4, "zero_optimization": {"stages": 2}})", "ds.json");
  ASSERT_TRUE(config);
  ASSERT_EQ(Codes(*config),
            (std::vector<std::string>{"ds_config_unknown_key", "ds_config_unknown_key"}));
  EXPECT_EQ(config->findings[0].remedy, "write \"gradient_accumulation_steps\"");
  EXPECT_NE(config->findings[1].says.find("zero_optimization.stages"), std::string::npos);
}

TEST(DeepspeedConfig, SaysWhatHasNoEffectBelowStage3) {
  const auto config = Read(
      R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"},
          "sub_group_size": 1e9, "offload_optimizer": {"device": "cpu"}}})",
      "z.json");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->offload, Offload::kOptimizer);
  EXPECT_EQ(Codes(*config),
            (std::vector<std::string>{"ds_config_no_effect", "ds_config_no_effect"}));
  const auto third = Read(
      R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
          "sub_group_size": 1e9, "offload_optimizer": {"device": "cpu"}}})",
      "z.json");
  ASSERT_TRUE(third);
  EXPECT_EQ(third->offload, Offload::kAll);
  EXPECT_TRUE(third->findings.empty());
}

TEST(DeepspeedConfig, TakesAutoAsNotWritten) {
  const auto config = Read(
      R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"},
          "zero_optimization": {"stage": "auto", "reduce_bucket_size": "auto"}})",
      "z.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->stage || config->train_batch || config->precision || config->reduce_bucket);
  EXPECT_EQ(config->automatic.size(), 4u);
}

TEST(DeepspeedConfig, RefusesWhatDeepspeedWouldTripOver) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "neither JSON nor Hjson"},
      {"{\"a\": ", "neither JSON nor Hjson"},
      {"[1]", "not a JSON object"},
      {R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})", "both true"},
      {R"({"zero_optimization": {"stage": 4}})", "zero_optimization.stage"},
      {R"({"zero_optimization": 2})", "is not an object"},
      {R"({"train_batch_size": 0})", "train_batch_size"},
      {R"({"train_batch_size": 1.5})", "train_batch_size"},
      {R"({"train_batch_size": "64"})", "train_batch_size"},
      {R"({"train_batch_size": 1e300})", "train_batch_size"},
      {R"({"train_batch_size": 1, "train_batch_size": 2})", "twice"},
      {R"({"zero_optimization": {"offload_optimizer": {"device": "gpu"}}})", "none, cpu and nvme"},
  };
  for (const auto& [text, words] : cases) {
    const auto config = Read(text, "ds.json");
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
    const std::string all = config.error().message + config.error().hint;
    EXPECT_NE(all.find(words), std::string::npos) << all;
    EXPECT_NE(all.find("ds.json"), std::string::npos) << all;
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  EXPECT_FALSE(Read(deep, "ds.json"));
}

// As people write it for DeepSpeed, which reads with hjson.
constexpr const char* kWithComments = R"({
  // ZeRO without offload
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8,},
  optimizer: {type: AdamW
              params: {lr: 1e-4}},  # as in the paper
  /* the batch */ "train_micro_batch_size_per_gpu": 4,
})";

TEST(DeepspeedConfig, ReadsCommentsAndCommasAsDeepspeedDoes) {
  const auto config = Read(kWithComments, "ds.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->stage, 2);
  EXPECT_EQ(config->reduce_bucket, 5e8);
  EXPECT_EQ(config->micro, 4);
  EXPECT_EQ(config->optimizer, "AdamW");
}

TEST(DeepspeedConfig, TakesOnlyJsonWhereTheTrainerReadsTheFile) {
  const auto config = ReadDeepspeedConfig(kWithComments, "ds.json", ConfigReader::kJson);
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("Python's json"), std::string::npos);
  EXPECT_TRUE(ReadDeepspeedConfig(kUsers, "ds.json", ConfigReader::kJson));
}

TEST(DeepspeedConfig, SaysWhereAFileIsWrongForDeepspeedToo) {
  const auto config = Read("{\n  \"fp16\": {\n    enabled true\n  }\n}", "ds.json");
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("ds.json"), std::string::npos);
  EXPECT_NE(config.error().message.find("line 3, column 5"), std::string::npos)
      << config.error().message;
  const auto twice = Read("{a: 1, a: 2}", "ds.json");
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("twice"), std::string::npos);
}

TEST(DeepspeedConfig, WritesWhatItReads) {
  DeepspeedPlan plan;
  plan.stage = 3;
  plan.offload = Offload::kAll;
  plan.precision = Precision::kFp16;
  plan.micro = 2;
  plan.accumulate = 8;
  plan.global = 64;
  plan.hidden = 4096;
  const std::string text = WriteDeepspeedConfig(plan);
  EXPECT_EQ(text.find("auto"), std::string::npos);
  const auto config = Read(text, "generated");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->findings.empty()) << config->findings[0].says;
  EXPECT_EQ(config->stage, 3);
  EXPECT_EQ(config->offload, Offload::kAll);
  EXPECT_EQ(config->precision, Precision::kFp16);
  EXPECT_EQ(config->train_batch, 64);
  EXPECT_EQ(config->micro, 2);
  EXPECT_EQ(config->accumulate, 8);
  EXPECT_EQ(config->reduce_bucket, 4096.0 * 4096.0);
}

}  // namespace
}  // namespace launch
