#include "planner/model/hf_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/python_json.h"
#include "planner/model/config_defaults.h"
#include "planner/model/config_section.h"
#include "planner/model/model_families.h"
#include "planner/model/parameter_count.h"
#include "planner/model/vision_config.h"

namespace launch {

namespace {

constexpr std::size_t kLargestText = std::size_t{16} << 20;

void ReadSizes(ConfigSection& config, ModelCard& card) {
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

void ReadExperts(ConfigSection& config, CountInput& in) {
  ModelCard& card = in.card;
  card.experts = config.SizeOrZero(
      {"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"});
  if (card.experts == 0) return;
  card.experts_active =
      config.SizeOrZero({"num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_k"});
  if (card.experts_active == 0) {
    const bool many = card.family == "qwen3_moe" || card.family == "deepseek_v3";
    card.experts_active =
        std::min<std::int64_t>(card.experts, many ? 8 : (card.family == "qwen2_moe" ? 4 : 2));
    card.origins["experts_active"] = {Origin::kAssumed,
                                      "usual number: num_experts_per_tok is absent"};
  }
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

void ReadLatentAttention(ConfigSection& config, CountInput& in) {
  const std::int64_t kv_rank = config.SizeOrZero({"kv_lora_rank"});
  if (kv_rank == 0) return;
  in.latent = LatentAttention{
      config.SizeOrZero({"q_lora_rank"}), kv_rank, config.SizeOrZero({"qk_nope_head_dim"}),
      config.SizeOrZero({"qk_rope_head_dim"}), config.SizeOrZero({"v_head_dim"})};
  in.card.head_dim = in.latent->nope_dim + in.latent->rope_dim;
}

void ReadFlags(const ConfigSection& config, Blueprint& print) {
  print.tied = config.Flag({"tie_word_embeddings"}).value_or(print.tied);
  if (const auto bias = config.Flag({"attention_bias"})) print.qkv_bias = print.out_bias = *bias;
  if (const auto bias = config.Flag({"use_qkv_bias", "add_qkv_bias", "qkv_bias"}))
    print.qkv_bias = *bias;
  print.mlp_bias = config.Flag({"mlp_bias"}).value_or(print.mlp_bias);
  if (config.Text("feed_forward_proj").starts_with("gated")) print.gated = true;
}

// What single families do differently from the table.
void ReadFamily(ConfigSection& config, CountInput& in) {
  ModelCard& card = in.card;
  Blueprint& print = in.blueprint;
  const std::string& type = card.family;
  if (type == "qwen") card.ffn /= 2;  // its intermediate_size counts gate and up together
  if (type.starts_with("qwen2") || type == "qwen") print.out_bias = false;
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
    if (const nlohmann::json* attention = config.Object("attn_config")) {
      ConfigSection inner(*attention, config.path());
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
  if ((type == "electra" || type == "albert") && card.hidden <= 1'000'000 &&
      card.vocab <= 100'000'000) {
    // The embeddings' own width, and a layer from it to the blocks'.
    std::int64_t width = config.SizeOrZero({"embedding_size"});
    if (width == 0) width = 128;
    width = std::min(width, card.hidden);
    in.embedding_width = width;
    const std::int64_t rows = card.seq + print.token_types + 2;  // and a norm
    in.extra_params = rows * (width - card.hidden);
    if (width != card.hidden || type == "albert")
      in.extra_params += width * card.hidden + card.hidden;
  }
  if (type == "albert") card.block_repeats = card.layers;
  if (type == "esm") {
    const std::string positions = config.Text("position_embedding_type");
    print.learned_positions = positions.empty() || positions == "absolute";
    print.embedding_norm = config.Flag({"emb_layer_norm_before"}).value_or(false);
    in.extra_params = card.layers * card.heads + 1;  // the head of contacts
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

void ReadHalves(ConfigSection& config, CountInput& in) {
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

Unexpected CannotCount(const std::string& path, const std::string& type) {
  return Fail(
      ErrorCode::kInvalidArgument,
      "the parameters of " + (type.empty() ? "this model" : "model_type \"" + type + "\"") +
          " cannot be counted from its configuration",
      "write model.params in place of model.config, or let a probe measure: model.probe: true",
      Where{path, 0, 0, "model_type"});
}

Result<ModelCard> ReadVision(ConfigSection& config, const std::string& type) {
  ModelCard card;
  card.family = type;
  card.architecture = Architecture::kVision;
  card.params = VisionParams(config, card);
  if (config.error()) return Unexpected(*config.error());
  if (card.params == 0) return CannotCount(config.path(), type);
  card.origins["params"] = FieldOrigin{Origin::kDerived, "configuration of " + type};
  return CompleteCard(std::move(card));
}

// What no network built like Llama has in its configuration, and parts of the names of those that
// are not: convolutions, state spaces, recurrence, images, sound.
bool LooksLikeLlama(const ConfigSection& config, const std::string& type) {
  for (const char* key :
       {"image_size", "patch_size", "vision_config", "audio_config", "state_size", "ssm_cfg",
        "mamba_d_state", "conv_kernel", "conv_dim", "conv_kernel_size", "linear_conv_kernel_dim",
        "num_mel_bins", "attention_hidden_size", "embedding_size", "num_hidden_groups",
        "encoder_layers", "num_channels", "hidden_sizes", "depths"}) {
    if (config.Has(key)) return false;
  }
  for (const char* part :
       {"mamba",     "rwkv",       "jamba",   "bamba",     "zamba",      "hyena",    "xlstm",
        "recurrent", "qwen3_next", "lfm2",    "falcon_h1", "nemotron_h", "vit",      "beit",
        "clip",      "swin",       "detr",    "vision",    "image",      "convnext", "resnet",
        "audio",     "speech",     "wav2vec", "hubert",    "wavlm",      "encodec",  "bert",
        "esm",       "xlnet",      "funnel",  "perceiver", "segformer",  "mlp_mixer"}) {
    if (type.find(part) != std::string::npos) return false;
  }
  if (config.ListHas("layer_types", "linear") || config.ListHas("layer_types", "conv") ||
      config.ListHas("layer_types", "mamba"))
    return false;
  return config.ListSize("architectures") == 0 || config.ListHas("architectures", "CausalLM") ||
         config.ListHas("architectures", "LMHead");
}

Result<ModelCard> ReadLanguage(ConfigSection& config, const std::string& type) {
  const Blueprint* known = BlueprintOf(type);
  CountInput in;
  in.blueprint = known != nullptr ? *known : Blueprint{};
  ModelCard& card = in.card;
  card.family = type;
  card.architecture = in.blueprint.architecture;
  ReadSizes(config, card);
  ReadHalves(config, in);
  if (config.error()) return Unexpected(*config.error());
  TakeClassDefaults(type, card);
  if (known == nullptr && !LooksLikeLlama(config, type)) return CannotCount(config.path(), type);
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

// Between tower and language model: CLIP and SigLIP have one matrix a side or none, the others
// about two layers from the tower's width to the model's.
double ProjectorParams(ConfigSection& config, const std::string& type, const ModelCard& text,
                       const ModelCard& tower) {
  const double hidden = Real(text.hidden);
  if (type == "siglip") return hidden * hidden + hidden + 2;  // the text side's head; scale, bias
  if (type != "clip") return (Real(tower.hidden) + hidden + 2) * hidden;
  const std::int64_t width = config.SizeOrZero({"projection_dim"});
  return Real(width > 0 ? width : 512) * (hidden + Real(tower.hidden)) + 1;
}

// `text` is `config` itself where the language model's sizes stand beside the tower's object.
Result<ModelCard> ReadWithTower(ConfigSection& config, ConfigSection& text,
                                const std::string& type) {
  std::string text_type = text.Text("model_type");
  if (text_type.empty() && (type == "clip" || type == "siglip")) text_type = type + "_text_model";
  LAUNCH_ASSIGN_OR_RETURN(ModelCard card, ReadLanguage(text, text_type));
  card.family = type;
  const nlohmann::json nothing = nlohmann::json::object();
  const nlohmann::json* tower = config.Object("vision_config");
  const bool two_towers = type == "clip" || type == "siglip";
  if (tower == nullptr && !two_towers) return card;
  nlohmann::json named = tower != nullptr ? *tower : nothing;
  if (!named.contains("model_type"))
    named["model_type"] = two_towers ? type + "_vision_model" : type;
  ConfigSection vision(named, config.path());
  ModelCard shape;
  const std::int64_t params = VisionParams(vision, shape);
  if (vision.error()) return Unexpected(*vision.error());
  if (params == 0) return CannotCount(config.path(), type);
  const double more = Real(params) + ProjectorParams(config, type, card, shape);
  if (config.error()) return Unexpected(*config.error());
  if (more + Real(card.params) > Real(kMaxParams)) return CannotCount(config.path(), type);
  card.params += std::llround(more);
  card.active_params += std::llround(more);
  card.trainable_params = card.params;
  card.origins["params"] = FieldOrigin{two_towers ? Origin::kDerived : Origin::kAssumed,
                                       "language model, vision tower, projector"};
  return card;
}

}  // namespace

Result<ModelCard> ReadHfConfig(std::string_view text, const std::string& path) {
  const Where where{path, 0, 0, {}};
  if (text.size() > kLargestText)
    return Fail(ErrorCode::kInvalidArgument, "larger than 16 MiB: not a model's config.json", "",
                where);
  const nlohmann::json document =
      nlohmann::json::parse(WithoutNan(text), nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    return Fail(ErrorCode::kInvalidArgument, "not valid JSON", "give the model's config.json",
                where);
  if (!document.is_object())
    return Fail(ErrorCode::kInvalidArgument, "not a JSON object", "give the model's config.json",
                where);
  ConfigSection config(document, path);
  const std::string type = config.Text("model_type");
  const Blueprint* known = BlueprintOf(type);
  if (known != nullptr && known->architecture == Architecture::kVision)
    return ReadVision(config, type);
  for (const char* name : {"text_config", "llm_config", "language_config"}) {
    if (const nlohmann::json* inner = config.Object(name)) {
      ConfigSection section(*inner, path);
      return ReadWithTower(config, section, type);
    }
  }
  const bool two_towers = type == "clip" || type == "siglip";
  if (two_towers) {
    const nlohmann::json nothing = nlohmann::json::object();
    ConfigSection section(nothing, path);
    return ReadWithTower(config, section, type);
  }
  const bool tower = known != nullptr && config.Object("vision_config") != nullptr;
  return tower ? ReadWithTower(config, config, type) : ReadLanguage(config, type);
}

}  // namespace launch
