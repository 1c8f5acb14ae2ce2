#include "planner/model/model_families.h"

namespace launch {

namespace {

struct Family {
  std::string_view type;
  Blueprint print;
};

constexpr Blueprint kLlama{};

constexpr Blueprint kGpt2 = [] {
  Blueprint print;
  print.gated = false;
  print.tied = true;
  print.norm = NormParams::kWeightAndBias;
  print.qkv_bias = print.out_bias = print.mlp_bias = true;
  print.learned_positions = true;
  return print;
}();

constexpr Blueprint With(Blueprint print, void (*change)(Blueprint&)) {
  change(print);
  return print;
}

constexpr Blueprint kTiedLlama = With(kLlama, [](Blueprint& b) { b.tied = true; });
constexpr Blueprint kQwen = With(kLlama, [](Blueprint& b) { b.qkv_bias = true; });
constexpr Blueprint kQwen3 = With(kLlama, [](Blueprint& b) { b.qk_norm = QkNorm::kPerHead; });
constexpr Blueprint kGemma2 = With(kTiedLlama, [](Blueprint& b) { b.norms = 4; });
constexpr Blueprint kGemma3 = With(kGemma2, [](Blueprint& b) { b.qk_norm = QkNorm::kPerHead; });
constexpr Blueprint kGptNeo = With(kGpt2, [](Blueprint& b) { b.qkv_bias = false; });
constexpr Blueprint kNeox = With(kGpt2, [](Blueprint& b) { b.learned_positions = b.tied = false; });
constexpr Blueprint kPhi = With(kNeox, [](Blueprint& b) {
  b.norms = 1;
  b.head_bias = true;
});
constexpr Blueprint kGptJ = With(kPhi, [](Blueprint& b) { b.qkv_bias = b.out_bias = false; });
constexpr Blueprint kOpt = With(kGpt2, [](Blueprint& b) { b.extra_positions = 2; });
constexpr Blueprint kBloom = With(kGpt2, [](Blueprint& b) {
  b.learned_positions = false;
  b.embedding_norm = true;
});
constexpr Blueprint kFalcon = With(kGpt2, [](Blueprint& b) {
  b.learned_positions = b.qkv_bias = b.out_bias = b.mlp_bias = false;
});
constexpr Blueprint kStarcoder2 = With(kGpt2, [](Blueprint& b) { b.learned_positions = false; });
constexpr Blueprint kStablelm =
    With(kLlama, [](Blueprint& b) { b.norm = NormParams::kWeightAndBias; });
constexpr Blueprint kCohere = With(kTiedLlama, [](Blueprint& b) { b.norms = 1; });
constexpr Blueprint kOlmo = With(kLlama, [](Blueprint& b) { b.norm = NormParams::kNone; });
constexpr Blueprint kOlmo2 = With(kLlama, [](Blueprint& b) { b.qk_norm = QkNorm::kWhole; });
constexpr Blueprint kT5 = With(kTiedLlama, [](Blueprint& b) {
  b.architecture = Architecture::kEncoderDecoder;
  b.gated = false;
});
constexpr Blueprint kBart = With(kGpt2, [](Blueprint& b) {
  b.architecture = Architecture::kEncoderDecoder;
  b.extra_positions = 2;
  b.embedding_norm = true;
  b.final_norm = false;
});
constexpr Blueprint kDistilbert = With(kGpt2, [](Blueprint& b) {
  b.architecture = Architecture::kEncoder;
  b.embedding_norm = true;
  b.final_norm = false;
});
constexpr Blueprint kBert = With(kDistilbert, [](Blueprint& b) {
  b.token_types = 2;
  b.pooler = true;
});
constexpr Blueprint kElectra = With(kBert, [](Blueprint& b) { b.pooler = false; });
constexpr Blueprint kEsm = With(kGpt2, [](Blueprint& b) {
  b.architecture = Architecture::kEncoder;
  b.pooler = true;
});
constexpr Blueprint kDebertaV2 = With(kDistilbert, [](Blueprint& b) {
  b.learned_positions = false;  // relative ones, counted with their norm
});
constexpr Blueprint kVision =
    With(kGpt2, [](Blueprint& b) { b.architecture = Architecture::kVision; });

// Sources: the modeling files of transformers; tests hold each against a published checkpoint.
constexpr Family kFamilies[] = {
    {"llama", kLlama},
    {"mistral", kLlama},
    {"mixtral", kLlama},
    {"yi", kLlama},
    {"Yi", kLlama},
    {"baichuan", kLlama},
    {"internlm2", kLlama},
    {"internlm", kLlama},
    {"phi3", kLlama},
    {"qwen", kQwen},
    {"qwen2", kQwen},
    {"qwen2_moe", kQwen},
    {"qwen2_vl", kQwen},
    {"qwen2_vl_text", kQwen},
    {"qwen2_5_vl", kQwen},
    {"qwen2_5_vl_text", kQwen},
    {"qwen3", kQwen3},
    {"qwen3_moe", kQwen3},
    {"chatglm", kLlama},
    {"gemma", kTiedLlama},
    {"gemma2", kGemma2},
    {"gemma3_text", kGemma3},
    {"deepseek", kLlama},
    {"deepseek_v2", kLlama},
    {"deepseek_v3", kLlama},
    {"stablelm", kStablelm},
    {"stablelm_epoch", kStablelm},
    {"cohere", kCohere},
    {"olmo", kOlmo},
    {"olmo2", kOlmo2},
    {"gpt2", kGpt2},
    {"gpt_bigcode", kGpt2},
    {"gpt_neo", kGptNeo},
    {"gpt_neox", kNeox},
    {"gptj", kGptJ},
    {"phi", kPhi},
    {"opt", kOpt},
    {"bloom", kBloom},
    {"falcon", kFalcon},
    {"RefinedWeb", kFalcon},
    {"RefinedWebModel", kFalcon},
    {"mpt", kGpt2},
    {"starcoder2", kStarcoder2},
    {"t5", kT5},
    {"mt5", kT5},
    {"umt5", kT5},
    {"bart", kBart},
    {"mbart", kBart},
    {"bert", kBert},
    {"roberta", kBert},
    {"xlm-roberta", kBert},
    {"camembert", kBert},
    {"distilbert", kDistilbert},
    {"electra", kElectra},
    {"albert", kBert},
    {"esm", kEsm},
    {"deberta-v2", kDebertaV2},
    {"clip_text_model", kGpt2},
    {"siglip_text_model", kGpt2},
    {"vit", kVision},
    {"deit", kVision},
    {"dinov2", kVision},
    {"clip_vision_model", kVision},
    {"siglip_vision_model", kVision},
};

}  // namespace

const Blueprint* BlueprintOf(std::string_view model_type) {
  for (const Family& family : kFamilies)
    if (family.type == model_type) return &family.print;
  return nullptr;
}

}  // namespace launch
