// Exact parameter counts of transformer families from their shape.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/model/model_card.h"

namespace launch {

enum class NormParams { kNone = 0, kWeight = 1, kWeightAndBias = 2 };  // vectors of width hidden
enum class QkNorm { kNone, kPerHead, kWhole };

// What distinguishes families beyond the sizes in ModelCard.
struct Blueprint {
  Architecture architecture = Architecture::kDecoder;
  bool gated = true;
  bool tied = false;  // unless the configuration says otherwise
  NormParams norm = NormParams::kWeight;
  int norms = 2;  // of a block
  bool final_norm = true;
  bool embedding_norm = false;
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  bool learned_positions = false;
  int extra_positions = 0;       // rows of the position table before the first token
  std::int64_t token_types = 0;  // rows of a segment table
  bool pooler = false;
};

// Latent attention (DeepSeek); widths in elements, q_rank 0 = queries are not compressed.
struct LatentAttention {
  std::int64_t q_rank = 0;
  std::int64_t kv_rank = 0;
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t value_dim = 0;
};

struct MoeLayout {
  std::int64_t shared_ffn = 0;  // width of the always active expert; 0 = none
  bool shared_gate = false;
  std::int64_t dense_ffn = 0;     // width of the blocks without experts
  std::int64_t dense_layers = 0;  // how many those are
};

struct CountInput {
  ModelCard card;  // sizes; card.ffn is the width of one expert when experts > 0
  Blueprint blueprint;
  std::int64_t positions = 0;  // rows of a learned position table, without the extra ones
  std::optional<LatentAttention> latent;
  MoeLayout moe;
  std::int64_t encoder_layers = 0;    // encoder-decoder only; decoder = layers - these
  std::int64_t embedding_width = 0;   // of the word embedding; 0 = hidden
  std::int64_t extra_params = 0;      // what one family has besides; may be negative
  std::int64_t relative_buckets = 0;  // T5's bias tables, one in each half
};

// Fills params, active_params, embedding_params, head_params and layer_params of the card and marks
// them derived. Sizes must have passed CheckCard. kInvalidArgument when the sum exceeds 1e14.
Result<ModelCard> CountParameters(const CountInput& input);

struct VisionShape {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t image = 0;
  std::int64_t patch = 0;
  std::int64_t channels = 3;
  bool class_token = true;
  bool patch_bias = true;
  int norms_outside = 1;      // before and after the blocks
  bool layer_scale = false;   // DINOv2, with its mask token
  bool pooling_head = false;  // SigLIP's: attention of one probe, norm and MLP
  bool gated = false;         // three matrices in the MLP (Qwen2.5-VL)
};
// A vision transformer without classifier; 0 when a size is missing.
std::int64_t CountVision(const VisionShape& shape);

}  // namespace launch
