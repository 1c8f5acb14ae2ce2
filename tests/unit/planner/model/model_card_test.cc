#include "planner/model/model_card.h"

#include <gtest/gtest.h>

#include <limits>

namespace launch {
namespace {

ModelCard Complete(ModelCard card) {
  auto completed = CompleteCard(std::move(card));
  EXPECT_TRUE(completed) << (completed ? "" : completed.error().message);
  return completed.value_or(ModelCard{});
}

std::string ErrorOf(const ModelCard& card) {
  const auto completed = CompleteCard(card);
  return completed ? "accepted" : completed.error().message;
}

TEST(ModelCard, MarksWhatIsStatedDerivedAndAssumed) {
  ModelCard card;
  card.params = 6738415616;
  card.layers = 32;
  card.hidden = 4096;
  card.heads = 32;
  card.vocab = 32000;
  const ModelCard full = Complete(card);
  EXPECT_EQ(full.origins.at("params").origin, Origin::kStated);
  EXPECT_EQ(full.origins.at("head_dim"), (FieldOrigin{Origin::kDerived, "hidden / heads"}));
  EXPECT_EQ(full.origins.at("kv_heads").origin, Origin::kAssumed);
  EXPECT_FALSE(full.origins.contains("experts"));
  EXPECT_EQ(ShapeOrigin(full), Origin::kStated);
}

TEST(ModelCard, FindsTheMlpInTheParameterCount) {
  ModelCard card;
  card.params = 6738415616;  // Llama-2-7B: gated, 11008 wide
  card.layers = 32;
  card.hidden = 4096;
  card.heads = 32;
  card.vocab = 32000;
  const ModelCard llama = Complete(card);
  EXPECT_TRUE(llama.gated_ffn);
  EXPECT_NEAR(static_cast<double>(llama.ffn), 11008, 2);

  card.params = 1557611200;  // GPT-2 XL: plain, 4 x 1600
  card.layers = 48;
  card.hidden = 1600;
  card.heads = 25;
  card.vocab = 50257;
  card.tied = true;
  const ModelCard gpt = Complete(card);
  EXPECT_FALSE(gpt.gated_ffn);
  EXPECT_NEAR(static_cast<double>(gpt.ffn), 6400, 20);
}

TEST(ModelCard, AssumesAUsualShapeForACountAlone) {
  ModelCard card;
  card.params = 13'000'000'000;
  const ModelCard full = Complete(card);
  EXPECT_EQ(full.origins.at("layers").origin, Origin::kAssumed);
  EXPECT_EQ(ShapeOrigin(full), Origin::kAssumed);
  EXPECT_NEAR(static_cast<double>(full.layers), 40, 4);  // Llama-2-13B: 40 x 5120
  EXPECT_NEAR(static_cast<double>(full.hidden), 5120, 520);
}

TEST(ModelCard, CountsFromAShapeAlone) {
  ModelCard card;
  card.layers = 24;
  card.hidden = 2048;
  card.vocab = 50257;
  card.tied = true;
  const ModelCard full = Complete(card);  // GPT-3 XL, 1.3 billion
  EXPECT_NEAR(static_cast<double>(full.params), 1.31e9, 0.02e9);
  EXPECT_EQ(full.origins.at("params").origin, Origin::kAssumed);
}

TEST(ModelCard, LeavesAnUnknownScriptUnknown) {
  const ModelCard card = Complete(ModelCard{});
  EXPECT_EQ(card, ModelCard{});
  EXPECT_EQ(ShapeOrigin(card), Origin::kUnknown);
}

TEST(ModelCard, CountsTheExpertsOneTokenPasses) {
  ModelCard card;
  card.params = 46702792704;
  card.layers = 32;
  card.hidden = 4096;
  card.heads = 32;
  card.kv_heads = 8;
  card.ffn = 14336;
  card.gated_ffn = true;
  card.vocab = 32000;
  card.experts = 8;
  card.experts_active = 2;
  EXPECT_EQ(Complete(card).active_params, 12879925248);
}

TEST(ModelCard, RefusesWhatCannotBe) {
  ModelCard card;
  card.params = -1;
  EXPECT_EQ(ErrorOf(card), "model: params is -1, below zero");
  card.params = 1'000'000'000'000'000'000;
  EXPECT_EQ(ErrorOf(card), "model: params is 1000000000000000000, more than 1e14 parameters");
  card = {};
  card.layers = 32;
  card.hidden = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(ErrorOf(card), "model: hidden is 9223372036854775807, larger than 1e9");
  card = {};
  card.heads = 8;
  card.kv_heads = 16;
  EXPECT_EQ(ErrorOf(card), "model: kv_heads is 16, more than the 8 heads");
  card = {};
  card.params = 1'000'000;
  card.layers = 2;
  card.hidden = 4096;
  card.vocab = 32000;
  EXPECT_EQ(ErrorOf(card),
            "model: params is 1000000, fewer than the word embedding alone (vocab x hidden)");
}

TEST(ModelCard, RefusesProductsBeyondEveryModel) {
  ModelCard card;
  card.layers = 100'000;
  card.hidden = 10'000'000;
  card.heads = 1'000'000'000;
  card.head_dim = 1'000'000'000;
  card.ffn = 1'000'000'000;
  card.vocab = 1'000'000'000;
  EXPECT_FALSE(CompleteCard(card));
}

TEST(ModelCard, ReadsCountsAsPeopleWriteThem) {
  EXPECT_EQ(ParseParamCount("7B").value(), 7'000'000'000);
  EXPECT_EQ(ParseParamCount("1.3b").value(), 1'300'000'000);
  EXPECT_EQ(ParseParamCount("350M").value(), 350'000'000);
  EXPECT_EQ(ParseParamCount("6738415616").value(), 6738415616);
  EXPECT_EQ(ParseParamCount("8_030_261_248").value(), 8030261248);
  for (const char* bad : {"", "B", "-7B", "0", "7 B", "nan", "1e400", "1000T", "seven"})
    EXPECT_FALSE(ParseParamCount(bad)) << bad;
}

}  // namespace
}  // namespace launch
