#include "planner/model/config_defaults.h"

#include <cstdint>
#include <string>

namespace launch {
namespace {

// 0: the class has none, or derives it (ffn 4 hidden, head_dim hidden / heads, kv_heads = heads).
struct ClassDefaults {
  std::string_view type;
  std::int64_t vocab;
  std::int64_t hidden;
  std::int64_t ffn;
  std::int64_t layers;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t seq;  // rows of a learned position table
};

// Source: configuration_*.py of transformers 5.23, by CONFIG_MAPPING[type]().
constexpr ClassDefaults kDefaults[] = {
    {"llama", 32000, 4096, 11008, 32, 32, 0, 0, 0},
    {"mistral", 32000, 4096, 14336, 32, 32, 8, 0, 0},
    {"mixtral", 32000, 4096, 14336, 32, 32, 8, 0, 0},
    {"phi3", 32064, 3072, 8192, 32, 32, 0, 0, 0},
    {"qwen2", 151936, 4096, 22016, 32, 32, 32, 0, 0},
    {"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 0},
    {"qwen2_vl_text", 152064, 8192, 29568, 80, 64, 8, 0, 0},
    {"qwen2_5_vl_text", 152064, 8192, 29568, 80, 64, 8, 0, 0},
    {"gemma", 256000, 3072, 24576, 28, 16, 16, 256, 0},
    {"gemma2", 256000, 2304, 9216, 26, 8, 4, 256, 0},
    {"gemma3_text", 262208, 2304, 9216, 26, 8, 4, 256, 0},
    {"gpt2", 50257, 768, 0, 12, 12, 0, 0, 1024},
    {"opt", 50272, 768, 3072, 12, 12, 0, 0, 2048},
    {"bert", 30522, 768, 3072, 12, 12, 0, 0, 512},
    {"roberta", 50265, 768, 3072, 12, 12, 0, 0, 512},
    {"xlm-roberta", 50265, 768, 3072, 12, 12, 0, 0, 512},
    {"camembert", 30522, 768, 3072, 12, 12, 0, 0, 512},
    {"distilbert", 30522, 768, 0, 6, 12, 0, 0, 512},
    {"electra", 30522, 256, 1024, 12, 4, 0, 0, 512},
    {"esm", 0, 768, 3072, 12, 12, 0, 0, 1026},
    {"albert", 30000, 4096, 16384, 12, 64, 0, 0, 512},
    {"clip_text_model", 49408, 512, 2048, 12, 8, 0, 0, 77},
    {"siglip_text_model", 32000, 768, 3072, 12, 12, 0, 0, 64},
};

}  // namespace

void TakeClassDefaults(std::string_view model_type, ModelCard& card) {
  for (const ClassDefaults& usual : kDefaults) {
    if (usual.type != model_type) continue;
    const auto take = [&](const char* field, std::int64_t& size, std::int64_t value) {
      if (size != 0 || value == 0) return;
      size = value;
      card.origins[field] = {Origin::kDerived,
                             "default of transformers for " + std::string(model_type)};
    };
    take("vocab", card.vocab, usual.vocab);
    take("hidden", card.hidden, usual.hidden);
    take("ffn", card.ffn, usual.ffn);
    take("layers", card.layers, usual.layers);
    take("heads", card.heads, usual.heads);
    if (usual.kv_heads <= card.heads) take("kv_heads", card.kv_heads, usual.kv_heads);
    take("head_dim", card.head_dim, usual.head_dim);
    take("seq", card.seq, usual.seq);
    return;
  }
}

}  // namespace launch
