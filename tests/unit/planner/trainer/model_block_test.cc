#include "planner/trainer/model_block.h"

#include <gtest/gtest.h>

#include "common/text.h"
#include "planner/model/optimizer_names.h"

namespace launch {
namespace {

class ModelBlock : public ::testing::Test {
 protected:
  Result<std::optional<ModelInput>> Read() {
    choices_.job.model.fields = fields_;
    if (!run_.empty()) choices_.flags = *ReadTrainerFlags(ReadLaunchLine(run_, {})->arguments);
    return ReadModel(choices_, context_);
  }
  std::string Refusal() {
    const auto input = Read();
    return input ? "" : input.error().message;
  }

  std::map<std::string, std::string> fields_;
  std::string run_;  // its flags are the choices then
  UserChoices choices_;
  SubmitContext context_;
};

TEST_F(ModelBlock, IsAbsentWhenTheJobSaysNothingOfItsModel) {
  auto input = Read();
  ASSERT_TRUE(input);
  EXPECT_FALSE(*input);
  fields_ = {{"optimizer", "sgd"}, {"seq_len", "512"}};  // how, not what
  input = Read();
  ASSERT_TRUE(input);
  EXPECT_FALSE(*input);
}

TEST_F(ModelBlock, ReadsAShapeAndARecipe) {
  fields_ = {{"params", "6738415616"},
             {"layers", "32"},
             {"hidden", "4096"},
             {"heads", "32"},
             {"vocab", "32000"},
             {"seq_len", "768"},
             {"lora.rank", "64"},
             {"lora.targets", "q_proj,v_proj"},
             {"activation_checkpointing", "full"},
             {"attention", "eager"}};
  const auto input = Read();
  ASSERT_TRUE(input) << input.error().message;
  ASSERT_TRUE(*input);
  EXPECT_EQ((*input)->card.params, 6'738'415'616);
  EXPECT_EQ((*input)->setup.seq, 768);
  EXPECT_EQ((*input)->setup.lora_rank, 64);
  EXPECT_EQ((*input)->setup.adapted,
            (std::set<AdaptedLayer>{AdaptedLayer::kQuery, AdaptedLayer::kValue}));
  EXPECT_EQ((*input)->setup.checkpointing, Checkpointing::kFull);
  EXPECT_EQ((*input)->setup.attention, Attention::kEager);
  EXPECT_TRUE((*input)->checkpointing_fixed);
}

TEST_F(ModelBlock, TakesTheTrainersFlagsAndSaysWhatItAssumes) {
  fields_ = {{"params", "7B"}};
  choices_.flags.seq = Flag<std::int64_t>{1024, "--model_max_length 1024"};
  choices_.flags.checkpointing = Flag<bool>{true, "--gradient_checkpointing"};
  choices_.flags.optimizer = Flag<std::string>{"paged_adamw_8bit", "--optim paged_adamw_8bit"};
  const auto input = Read();
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_EQ((*input)->setup.seq, 1024);
  EXPECT_EQ((*input)->setup.checkpointing, Checkpointing::kFull);
  EXPECT_EQ((*input)->setup.optimizer.moment_bytes, 1);
  EXPECT_FALSE((*input)->assumptions.empty());
}

TEST_F(ModelBlock, ReadsAConfigurationFile) {
  context_.files["config.json"] =
      R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
          "max_position_embeddings": 4096, "tie_word_embeddings": false})";
  fields_ = {{"config", "config.json"}};
  auto input = Read();
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_EQ((*input)->card.params, 6'738'415'616);
  EXPECT_EQ((*input)->setup.seq, 2048);
  fields_["hidden"] = "2048";
  EXPECT_NE(Refusal().find("config.json"), std::string::npos) << Refusal();
}

TEST_F(ModelBlock, TakesPeftsRankForTargetsAlone) {
  fields_ = {{"params", "7B"}, {"lora.targets", "q_proj,v_proj"}};
  const auto input = Read();
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_EQ((*input)->setup.lora_rank, 8);
  const std::string said = Joined((*input)->assumptions, "; ");
  EXPECT_NE(said.find("rank 8"), std::string::npos) << said;
}

TEST_F(ModelBlock, RefusesOptimizersItDoesNotKnowAndSaysWhatItTakesForThoseOfAFlag) {
  fields_ = {{"params", "7B"}, {"optimizer", "adafator"}};
  const auto refused = Read();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("adafator"), std::string::npos);
  EXPECT_NE(refused.error().hint.find("adafactor"), std::string::npos) << refused.error().hint;
  fields_.erase("optimizer");
  choices_.flags.optimizer = Flag<std::string>{"frobnicate", "--optim frobnicate"};
  const auto assumed = Read();
  ASSERT_TRUE(assumed);
  EXPECT_EQ((*assumed)->setup.optimizer.moments, 2);
  const std::string said = Joined((*assumed)->assumptions, "; ");
  EXPECT_NE(said.find("frobnicate"), std::string::npos) << said;
  for (const char* known : {"adamw_torch_fused", "paged_lion_8bit", "schedule_free_sgd", "adalomo"})
    EXPECT_TRUE(NamesOptimizer(known)) << known;
  EXPECT_EQ(OptimizerOf("lomo").moments, 0);
  EXPECT_EQ(OptimizerOf("ademamix").moments, 3);
}

TEST_F(ModelBlock, RefusesParametersThatTheShapeCannotHave) {
  const std::map<std::string, std::string> impossible[] = {
      {{"params", "70B"}, {"layers", "32"}, {"hidden", "4096"}},
      {{"params", "7B"}, {"layers", "100000"}},
      {{"params", "7B"}, {"hidden", "1"}},
      {{"params", "1B"}, {"layers", "32"}, {"hidden", "4096"}},
  };
  for (const auto& fields : impossible) {
    fields_ = fields;
    EXPECT_NE(Refusal().find("contradicts"), std::string::npos) << fields.at("params");
  }
  const std::map<std::string, std::string> possible[] = {
      {{"params", "7B"}, {"layers", "32"}, {"hidden", "4096"}},
      {{"params", "300M"}, {"layers", "16"}, {"hidden", "512"}},  // mT5: nearly all vocabulary
      {{"params", "11.3B"},
       {"layers", "48"},
       {"hidden", "1024"},
       {"ffn", "65536"},
       {"heads", "128"}},
      {{"params", "135M"}, {"layers", "30"}, {"hidden", "576"}},
  };
  for (const auto& fields : possible) {
    fields_ = fields;
    EXPECT_EQ(Refusal(), "") << fields.at("params");
  }
}

TEST_F(ModelBlock, RefusesWhatCannotBe) {
  const std::pair<std::map<std::string, std::string>, const char*> cases[] = {
      {{{"params", "0"}}, "model.params"},
      {{{"params", "-7B"}}, "model.params"},
      {{{"params", "1000000000000000000"}}, "params"},
      {{{"params", "7B"}, {"seq_len", "0"}}, "model.seq_len"},
      {{{"params", "7B"}, {"layers", "x"}}, "model.layers"},
      {{{"params", "7B"}, {"attention", "slow"}}, "flash"},
      {{{"params", "7B"}, {"quantization", "nf4"}}, "model.lora"},
      {{{"config", "gone.json"}}, "gone.json"},
  };
  for (const auto& [fields, word] : cases) {
    fields_ = fields;
    EXPECT_NE(Refusal().find(word), std::string::npos) << word << " in: " << Refusal();
  }
}

TEST_F(ModelBlock, NamesBothValuesThatDisagree) {
  struct Case {
    std::string key, value;
    std::string flags;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {"seq_len", "1024", "--max_seq_length 4096", {"seq_len is 1024", "--max_seq_length 4096"}},
      {"optimizer", "adamw_8bit", "--optim adamw_torch", {"adamw_8bit", "--optim adamw_torch"}},
      {"lora.rank", "8", "--lora_r 64", {"lora.rank is 8", "--lora_r 64"}},
      {"activation_checkpointing",
       "none",
       "--gradient_checkpointing",
       {"activation_checkpointing is none", "--gradient_checkpointing"}},
  };
  for (const Case& one : cases) {
    fields_ = {{"params", "7B"}, {one.key, one.value}};
    run_ = "python t.py --per_device_train_batch_size 2 " + one.flags;
    for (const std::string& word : one.words)
      EXPECT_NE(Refusal().find(word), std::string::npos) << word << " in: " << Refusal();
  }
  fields_ = {{"params", "7B"}, {"optimizer", "adamw"}, {"seq_len", "4096"}};
  run_ = "python t.py --per_device_train_batch_size 2 --optim adamw_torch --max_seq_length 4096";
  EXPECT_EQ(Refusal(), "") << "two spellings of one kind";
}

TEST(FormatOf, FollowsPrecisionAndTheLibraryThatShards) {
  EXPECT_EQ(FormatOf(Precision::kFp16, false), StateFormat::kAmp);
  EXPECT_EQ(FormatOf(Precision::kBf16, true), StateFormat::kPure16);
  EXPECT_EQ(FormatOf(Precision::kTf32, true), StateFormat::kFp32);
  const StateFormat amp = StateFormat::kAmp;
  EXPECT_EQ(FormatUnder(Strategy::kDdp, amp, 0), amp);
  EXPECT_EQ(FormatUnder(Strategy::kZero2, amp, 0), StateFormat::kMaster16);
  EXPECT_EQ(FormatUnder(Strategy::kZero3, StateFormat::kPure16, 0), StateFormat::kMaster16);
  EXPECT_EQ(FormatUnder(Strategy::kFsdp, amp, 0), StateFormat::kFsdpMixed);
  EXPECT_EQ(FormatUnder(Strategy::kFsdp, StateFormat::kPure16, 0), StateFormat::kPure16);
  EXPECT_EQ(FormatUnder(Strategy::kZero3, StateFormat::kPure16, 8), StateFormat::kPure16);
  EXPECT_EQ(FormatUnder(Strategy::kZero3, StateFormat::kFp32, 0), StateFormat::kFp32);
}

}  // namespace
}  // namespace launch
