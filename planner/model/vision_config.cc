#include "planner/model/vision_config.h"

#include <string>
#include <string_view>

#include "planner/model/parameter_count.h"

namespace launch {
namespace {

// What the configuration classes of transformers 5.23 take for a size that is not written.
struct TowerDefaults {
  std::string_view type;
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t ffn;
  std::int64_t heads;
  std::int64_t image;
  std::int64_t patch;
};

constexpr TowerDefaults kTowers[] = {
    {"vit", 12, 768, 3072, 12, 224, 16},
    {"deit", 12, 768, 3072, 12, 224, 16},
    {"dinov2", 12, 768, 0, 12, 224, 14},
    {"clip_vision_model", 12, 768, 3072, 12, 224, 32},
    {"siglip_vision_model", 12, 768, 3072, 12, 224, 16},
};

void TakeDefaults(std::string_view type, VisionShape& shape, std::int64_t& heads) {
  const auto take = [](std::int64_t& size, std::int64_t usual) {
    if (size == 0) size = usual;
  };
  for (const TowerDefaults& tower : kTowers) {
    if (tower.type != type) continue;
    take(shape.layers, tower.layers);
    take(shape.hidden, tower.hidden);
    take(shape.ffn, tower.ffn);
    take(heads, tower.heads);
    take(shape.image, tower.image);
    take(shape.patch, tower.patch);
  }
}

}  // namespace

std::int64_t VisionParams(ConfigSection& config, ModelCard& card) {
  VisionShape shape;
  const std::string type = config.Text("model_type");
  shape.layers = config.SizeOrZero({"num_hidden_layers", "depth"});
  // Qwen2-VL's hidden_size is the width of the language model behind the tower.
  shape.hidden = config.SizeOrZero({"embed_dim", "hidden_size"});
  shape.ffn = config.SizeOrZero({"intermediate_size"});
  shape.image = config.SizeOrZero({"image_size"});
  shape.patch = config.SizeOrZero({"patch_size", "spatial_patch_size"});
  card.heads = config.SizeOrZero({"num_attention_heads", "num_heads"});
  TakeDefaults(type, shape, card.heads);
  if (shape.ffn == 0 && shape.hidden <= kMaxLength / 4) shape.ffn = 4 * shape.hidden;
  if (shape.image == 0)
    shape.image = 16 * shape.patch;  // towers for any size have no position table
  const std::int64_t channels = config.SizeOrZero({"num_channels", "in_chans"});
  if (channels > 0) shape.channels = channels;
  if (type.starts_with("siglip")) {
    shape.class_token = false;
    shape.pooling_head = config.Flag({"vision_use_head"}).value_or(true);
  }
  if (type.starts_with("clip")) {
    shape.patch_bias = false;
    shape.norms_outside = 2;
  }
  shape.layer_scale = type == "dinov2";
  shape.gated = type.starts_with("qwen2_5_vl");
  card.layers = shape.layers;
  card.hidden = shape.hidden;
  card.ffn = shape.ffn;
  card.kv_heads = card.heads;
  if (card.heads > 0) card.head_dim = shape.hidden / card.heads;
  if (shape.patch > 0 && shape.image >= shape.patch && shape.image / shape.patch < 10'000) {
    const std::int64_t side = shape.image / shape.patch;
    card.seq = side * side + (shape.class_token ? 1 : 0);
  }
  return CountVision(shape);
}

}  // namespace launch
