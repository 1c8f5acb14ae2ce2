#include "planner/model/adapters.h"

#include <gtest/gtest.h>

#include "planner/cost/memory_model.h"
#include "planner/cost/memory_parts.h"
#include "tests/unit/planner/model_fixtures.h"

namespace launch {
namespace {

using testing::Llama2_7B;

// Llama-3-8B: 32 heads of 128 share 8 keys; blocks of 4096 with MLPs of 14336.
ModelCard Grouped() {
  ModelCard card = Llama2_7B();
  card.params = 8'030'261'248;
  card.kv_heads = 8;
  card.ffn = 14336;
  card.vocab = 128256;
  return *CompleteCard(card);
}

double Counted(const char* targets) {
  TrainingSetup setup;
  setup.lora_rank = 1;
  setup.adapted = AdapterTargetsOf(targets).layers;
  return AdapterParams(Grouped(), setup) / 32;  // of one block
}

TEST(Adapters, CountTheNamedMatricesWithTheirOwnSizes) {
  EXPECT_EQ(Counted("q_proj"), 4096 + 4096);
  EXPECT_EQ(Counted("q_proj,v_proj"), 8192 + 4096 + 1024);
  EXPECT_EQ(Counted("q_proj,k_proj,v_proj,o_proj"), 2 * 8192 + 2 * 5120);
  EXPECT_EQ(Counted("query_key_value"), 4096 + 4096 + 2 * 1024);
  EXPECT_EQ(Counted("model.layers.0.mlp.down_proj"), 4096 + 14336);
  EXPECT_EQ(Counted("all-linear"), 2 * 8192 + 2 * 5120 + 3 * (4096 + 14336));
  EXPECT_EQ(Counted(""), Counted("all-linear"));
}

TEST(Adapters, AgreeBetweenMemoryAndTime) {
  TrainingSetup setup;
  setup.lora_rank = 8;
  setup.adapted = AdapterTargetsOf("[q_proj, v_proj]").layers;
  EXPECT_EQ(AdaptedMatrices(Grouped(), setup), 2);
  setup.adapted.clear();
  EXPECT_EQ(AdaptedMatrices(Grouped(), setup), 7);
  setup.lora_rank = 0;
  EXPECT_EQ(AdaptedMatrices(Grouped(), setup), 0);
  EXPECT_EQ(AdapterParams(Grouped(), setup), 0);
}

TEST(Adapters, TakeAllLayersForANameThatIsNotKnown) {
  const AdapterTargets targets = AdapterTargetsOf("q_proj, my_magic_layer");
  EXPECT_TRUE(targets.layers.empty());
  EXPECT_EQ(targets.unknown, "my_magic_layer");
}

TEST(Adapters, DoNotHoldTheFrozenBaseTwiceUnderShards) {
  TrainingSetup setup;
  setup.strategy = Strategy::kFsdpGradOp;
  setup.ranks = 8;
  setup.lora_rank = 16;
  setup.format = StateFormat::kPure16;
  const ModelCard card = Grouped();
  const double base = 2.0 * static_cast<double>(card.params);
  const MemoryConstants constants;
  const auto held = [&] {
    return StatesOf(card, setup, constants).weights + BuffersOf(card, setup, constants).gathered;
  };
  EXPECT_DOUBLE_EQ(held(), base / 8 + base);
  setup.base = BaseFormat::kNf4;  // gathered as it is stored
  EXPECT_LT(held(), base / 2);
  setup.base = BaseFormat::kSame;
  setup.ranks = 1;  // nothing to gather
  EXPECT_DOUBLE_EQ(held(), base);
}

}  // namespace
}  // namespace launch
