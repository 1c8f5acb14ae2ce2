#include "planner/hf_config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "planner/model_families.h"
#include "planner/parameter_count.h"

namespace launch {

namespace {

using nlohmann::json;
using Names = std::initializer_list<const char*>;

constexpr std::size_t kLargestText = std::size_t{16} << 20;

// One JSON object of the file. The first error sticks, so that a reader asks once at the end.
class Section {
 public:
  Section(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

  // First of the names that is there and not null; 0 when none is.
  std::int64_t Size(Names names) { return Whole(names, 1); }
  std::int64_t SizeOrZero(Names names) { return Whole(names, 0); }

  std::optional<bool> Flag(Names names) const {
    for (const char* name : names) {
      const json* value = Find(name);
      if (value != nullptr && value->is_boolean()) return value->get<bool>();
    }
    return std::nullopt;
  }

  std::string Text(const char* name) const {
    const json* value = Find(name);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }

  std::size_t ListSize(const char* name) const {
    const json* value = Find(name);
    return value != nullptr && value->is_array() ? value->size() : 0;
  }

  const json* Object(const char* name) const {
    const json* value = Find(name);
    return value != nullptr && value->is_object() ? value : nullptr;
  }

  const std::string& path() const { return path_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  const json* Find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::int64_t Whole(Names names, std::int64_t least) {
    for (const char* name : names) {
      const json* value = Find(name);
      if (value == nullptr) continue;
      const double number = value->is_number() ? value->get<double>() : -1;
      if (number >= static_cast<double>(least) && number <= static_cast<double>(kMaxLength) &&
          std::floor(number) == number)
        return static_cast<std::int64_t>(number);
      if (!error_)
        error_ = Error{ErrorCode::kInvalidArgument,
                       std::string(name) + " is " + value->dump(-1, ' ', true).substr(0, 40) +
                           ", not a whole number from " + std::to_string(least) + " to 1e9",
                       "", Where{path_, 0, 0, name}};
      return 0;
    }
    return 0;
  }

  const json& object_;
  std::string path_;
  std::optional<Error> error_;
};

void ReadSizes(Section& config, ModelCard& card) {
  card.layers = config.Size({"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  card.hidden = config.Size({"hidden_size", "n_embd", "d_model", "dim", "n_embed"});
  card.heads = config.Size({"num_attention_heads", "n_head", "num_heads", "n_heads"});
  card.kv_heads = config.Size(
      {"num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "multi_query_group_num"});
  card.head_dim = config.Size({"head_dim", "d_kv", "kv_channels"});
  card.ffn = config.Size(
      {"intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim"});
  card.vocab = config.Size({"padded_vocab_size", "vocab_size"});
  card.seq = config.SizeOrZero({"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len",
                                "max_sequence_length", "seq_length", "model_max_length"});
  card.sliding_window = config.SizeOrZero({"sliding_window"});
}

void ReadExperts(Section& config, CountInput& in) {
  ModelCard& card = in.card;
  card.experts = config.SizeOrZero(
      {"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"});
  if (card.experts == 0) return;
  card.experts_active =
      config.SizeOrZero({"num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_k"});
  const std::int64_t width = config.Size({"moe_intermediate_size", "expert_ffn_hidden_size"});
  in.moe.dense_ffn = card.ffn;
  if (width > 0) card.ffn = width;
  in.moe.shared_ffn = config.SizeOrZero({"shared_expert_intermediate_size"});
  in.moe.shared_gate = in.moe.shared_ffn > 0;
  const std::int64_t shared = config.SizeOrZero({"n_shared_experts"});
  if (shared > 0 && shared < 1'000'000 && card.ffn < 1'000'000)
    in.moe.shared_ffn = shared * card.ffn;
  in.moe.dense_layers = config.SizeOrZero({"first_k_dense_replace"}) +
                        static_cast<std::int64_t>(config.ListSize("mlp_only_layers"));
  const std::int64_t step = config.SizeOrZero({"decoder_sparse_step", "moe_layer_freq"});
  if (step > 1)
    in.moe.dense_layers = std::max(in.moe.dense_layers, card.layers - card.layers / step);
}

void ReadLatentAttention(Section& config, CountInput& in) {
  const std::int64_t kv_rank = config.SizeOrZero({"kv_lora_rank"});
  if (kv_rank == 0) return;
  in.latent = LatentAttention{
      config.SizeOrZero({"q_lora_rank"}), kv_rank, config.SizeOrZero({"qk_nope_head_dim"}),
      config.SizeOrZero({"qk_rope_head_dim"}), config.SizeOrZero({"v_head_dim"})};
  in.card.head_dim = in.latent->nope_dim + in.latent->rope_dim;
}

void ReadFlags(const Section& config, Blueprint& print) {
  print.tied = config.Flag({"tie_word_embeddings"}).value_or(print.tied);
  if (const auto bias = config.Flag({"attention_bias"})) print.qkv_bias = print.out_bias = *bias;
  if (const auto bias = config.Flag({"use_qkv_bias", "add_qkv_bias", "qkv_bias"}))
    print.qkv_bias = *bias;
  print.mlp_bias = config.Flag({"mlp_bias"}).value_or(print.mlp_bias);
  if (config.Text("feed_forward_proj").starts_with("gated")) print.gated = true;
}

// What single families do differently from the table.
void ReadFamily(Section& config, CountInput& in) {
  ModelCard& card = in.card;
  Blueprint& print = in.blueprint;
  const std::string& type = card.family;
  if (type == "qwen") card.ffn /= 2;  // its intermediate_size counts gate and up together
  if (type == "qwen2" || type == "qwen2_moe" || type == "qwen") print.out_bias = false;
  if (type == "falcon" || type == "RefinedWeb" || type == "RefinedWebModel") {
    const bool newer = config.Flag({"new_decoder_architecture"}).value_or(type == "RefinedWeb");
    if (!newer) card.kv_heads = config.Flag({"multi_query"}).value_or(true) ? 1 : card.heads;
    print.norms = !newer && config.Flag({"parallel_attn"}).value_or(true) ? 1 : 2;
    print.qkv_bias = print.out_bias = print.mlp_bias = config.Flag({"bias"}).value_or(false);
  }
  if (type == "gpt_bigcode" && config.Flag({"multi_query"}).value_or(true)) card.kv_heads = 1;
  if (type == "internlm" || type == "internlm2")
    print.qkv_bias = print.out_bias = config.Flag({"bias"}).value_or(false);
  if (type == "starcoder2")
    print.qkv_bias = print.out_bias = print.mlp_bias = config.Flag({"use_bias"}).value_or(true);
  if (type == "mpt") {
    const bool biased = !config.Flag({"no_bias"}).value_or(true);
    print.qkv_bias = print.out_bias = print.mlp_bias = biased;
    print.norm = biased ? NormParams::kWeightAndBias : NormParams::kWeight;
    bool alibi = true;
    if (const json* attention = config.Object("attn_config")) {
      Section inner(*attention, config.path());
      alibi = inner.Flag({"alibi"}).value_or(false);
      if (const std::int64_t keys = inner.SizeOrZero({"kv_n_heads"}); keys > 0)
        card.kv_heads = keys;
    }
    print.learned_positions = !alibi && config.Flag({"learned_pos_emb"}).value_or(true);
  }
  if (type == "opt") {
    const std::int64_t width = config.SizeOrZero({"word_embed_proj_dim"});
    if (width > 0 && width != card.hidden && width <= 1'000'000 && card.hidden <= 1'000'000 &&
        card.vocab <= 100'000'000)
      in.extra_params = card.vocab * (width - card.hidden) + 2 * width * card.hidden;
    print.final_norm = config.Flag({"do_layer_norm_before"}).value_or(true);
  }
  if (print.token_types > 0) {
    const std::int64_t types = config.SizeOrZero({"type_vocab_size"});
    if (types > 0) print.token_types = types;
  }
  if (type == "deberta-v2" && card.hidden <= 1'000'000) {
    const std::int64_t buckets = config.SizeOrZero({"position_buckets"});
    const std::int64_t rows = 2 * (buckets > 0 ? buckets : card.seq);
    in.extra_params = rows * card.hidden + 2 * card.hidden;
    if (const std::int64_t kernel = config.SizeOrZero({"conv_kernel_size"});
        kernel > 0 && kernel < 100)
      in.extra_params += kernel * card.hidden * card.hidden + 3 * card.hidden;
  }
}

void ReadHalves(Section& config, CountInput& in) {
  ModelCard& card = in.card;
  if (in.blueprint.architecture != Architecture::kEncoderDecoder) return;
  const std::int64_t encoder = config.SizeOrZero({"encoder_layers", "num_layers"});
  const std::int64_t decoder = config.SizeOrZero({"decoder_layers", "num_decoder_layers"});
  in.encoder_layers = encoder > 0 ? encoder : card.layers;
  card.layers = in.encoder_layers + (decoder > 0 ? decoder : in.encoder_layers);
  if (card.heads == 0) card.heads = config.Size({"encoder_attention_heads"});
  if (card.ffn == 0) card.ffn = config.Size({"encoder_ffn_dim"});
  if (card.family == "t5" || card.family == "mt5" || card.family == "umt5") {
    in.relative_buckets = config.SizeOrZero({"relative_attention_num_buckets"});
    if (in.relative_buckets == 0) in.relative_buckets = 32;
  }
}

std::int64_t VisionParams(Section& config, ModelCard& card) {
  VisionShape shape;
  shape.layers = config.SizeOrZero({"num_hidden_layers", "depth"});
  shape.hidden = config.SizeOrZero({"hidden_size", "embed_dim"});
  shape.ffn = config.SizeOrZero({"intermediate_size"});
  if (shape.ffn == 0 && shape.hidden <= kMaxLength / 4) shape.ffn = 4 * shape.hidden;
  shape.image = config.SizeOrZero({"image_size"});
  shape.patch = config.SizeOrZero({"patch_size", "spatial_patch_size"});
  if (shape.image == 0)
    shape.image = 16 * shape.patch;  // towers for any size have no position table
  const std::int64_t channels = config.SizeOrZero({"num_channels"});
  if (channels > 0) shape.channels = channels;
  const std::string type = config.Text("model_type");
  if (type.starts_with("siglip")) shape.class_token = false;
  if (type.starts_with("clip")) {
    shape.patch_bias = false;
    shape.norms_outside = 2;
  }
  shape.layer_scale = type == "dinov2";
  card.layers = shape.layers;
  card.hidden = shape.hidden;
  card.ffn = shape.ffn;
  card.heads = config.SizeOrZero({"num_attention_heads", "num_heads"});
  card.kv_heads = card.heads;
  if (card.heads > 0) card.head_dim = shape.hidden / card.heads;
  if (shape.patch > 0 && shape.image >= shape.patch && shape.image / shape.patch < 10'000) {
    const std::int64_t side = shape.image / shape.patch;
    card.seq = side * side + (shape.class_token ? 1 : 0);
  }
  return CountVision(shape);
}

Unexpected CannotCount(const std::string& path, const std::string& type) {
  return Fail(ErrorCode::kInvalidArgument,
              "the parameters of " + (type.empty() ? "this model" : "model_type \"" + type + "\"") +
                  " cannot be counted from its configuration",
              "write model.params, or let a probe measure: model.probe: true",
              Where{path, 0, 0, "model_type"});
}

Result<ModelCard> ReadVision(Section& config, const std::string& type) {
  ModelCard card;
  card.family = type;
  card.architecture = Architecture::kVision;
  card.params = VisionParams(config, card);
  if (config.error()) return Unexpected(*config.error());
  if (card.params == 0) return CannotCount(config.path(), type);
  card.origins["params"] = FieldOrigin{Origin::kDerived, "configuration of " + type};
  return CompleteCard(std::move(card));
}

Result<ModelCard> ReadLanguage(Section& config, const std::string& type) {
  const Blueprint* known = BlueprintOf(type);
  CountInput in;
  in.blueprint = known != nullptr ? *known : Blueprint{};
  ModelCard& card = in.card;
  card.family = type;
  card.architecture = in.blueprint.architecture;
  ReadSizes(config, card);
  ReadHalves(config, in);
  if (config.error()) return Unexpected(*config.error());
  if (!HasShape(card) || card.heads == 0 || card.vocab == 0)
    return CannotCount(config.path(), type);
  if (card.hidden > 10'000'000) return CannotCount(config.path(), type);
  ReadFlags(config, in.blueprint);
  if (card.ffn == 0) card.ffn = 4 * card.hidden;
  ReadExperts(config, in);
  ReadLatentAttention(config, in);
  ReadFamily(config, in);
  if (config.error()) return Unexpected(*config.error());
  if (card.kv_heads == 0) card.kv_heads = card.heads;
  if (card.head_dim == 0) card.head_dim = std::max<std::int64_t>(1, card.hidden / card.heads);
  card.gated_ffn = in.blueprint.gated;
  card.tied = in.blueprint.tied;
  in.positions = card.seq;
  LAUNCH_RETURN_IF_ERROR(CheckCard(card));
  LAUNCH_ASSIGN_OR_RETURN(ModelCard counted, CountParameters(in));
  if (known == nullptr) {
    for (auto& [field, origin] : counted.origins)
      origin = FieldOrigin{Origin::kAssumed, "unknown model_type, counted like Llama"};
  }
  return CompleteCard(std::move(counted));
}

Result<ModelCard> ReadWithTower(Section& config, Section& text, const std::string& type) {
  LAUNCH_ASSIGN_OR_RETURN(ModelCard card, ReadLanguage(text, text.Text("model_type")));
  card.family = type;
  const json* tower = config.Object("vision_config");
  if (tower == nullptr) return card;
  Section vision(*tower, config.path());
  ModelCard shape;
  const std::int64_t params = VisionParams(vision, shape);
  if (vision.error()) return Unexpected(*vision.error());
  if (params == 0) return CannotCount(config.path(), type);
  // A projector of two layers from the tower's width to the model's.
  const double hidden = static_cast<double>(card.hidden);
  const double projector = (static_cast<double>(shape.hidden) + hidden + 2) * hidden;
  const double more = static_cast<double>(params) + projector;
  if (more + static_cast<double>(card.params) > static_cast<double>(kMaxParams))
    return CannotCount(config.path(), type);
  card.params += std::llround(more);
  card.active_params += std::llround(more);
  card.trainable_params = card.params;
  card.origins["params"] = FieldOrigin{Origin::kAssumed, "language model, vision tower, projector"};
  return card;
}

}  // namespace

Result<ModelCard> ReadHfConfig(std::string_view text, const std::string& path) {
  const Where where{path, 0, 0, {}};
  if (text.size() > kLargestText)
    return Fail(ErrorCode::kInvalidArgument, "larger than 16 MiB: not a model's config.json", "",
                where);
  const json document = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    return Fail(ErrorCode::kInvalidArgument, "not valid JSON", "give the model's config.json",
                where);
  if (!document.is_object())
    return Fail(ErrorCode::kInvalidArgument, "not a JSON object", "give the model's config.json",
                where);
  Section config(document, path);
  const std::string type = config.Text("model_type");
  const Blueprint* known = BlueprintOf(type);
  if (known != nullptr && known->architecture == Architecture::kVision)
    return ReadVision(config, type);
  for (const char* name : {"text_config", "llm_config", "language_config"}) {
    if (const json* inner = config.Object(name)) {
      Section section(*inner, path);
      return ReadWithTower(config, section, type);
    }
  }
  return ReadLanguage(config, type);
}

}  // namespace launch
