#include "planner/model/hf_config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace launch {
namespace {

struct Published {
  const char* name;
  std::int64_t params;
  const char* config;  // the fields that matter, as the model's repository has them
};

// Parameters as counted by loading the checkpoint (safetensors index or model card).
const Published kPublished[] = {
    {"gpt2", 124439808,
     R"({"model_type":"gpt2","n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,
         "vocab_size":50257})"},
    {"gpt2-xl", 1557611200,
     R"({"model_type":"gpt2","n_embd":1600,"n_head":25,"n_layer":48,"n_positions":1024,
         "n_inner":null,"vocab_size":50257})"},
    {"gpt2-large", 774030080,
     R"({"model_type":"gpt2","n_embd":1280,"n_head":20,"n_layer":36,"n_positions":1024,
         "vocab_size":50257})"},
    {"Llama-2-7b", 6738415616,
     R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":32,"intermediate_size":11008,"vocab_size":32000,
         "tie_word_embeddings":false,"max_position_embeddings":4096})"},
    {"Llama-2-13b", 13015864320,
     R"({"model_type":"llama","hidden_size":5120,"num_attention_heads":40,"num_hidden_layers":40,
         "intermediate_size":13824,"vocab_size":32000})"},
    {"Llama-2-70b", 68976648192,
     R"({"model_type":"llama","hidden_size":8192,"num_attention_heads":64,"num_hidden_layers":80,
         "num_key_value_heads":8,"intermediate_size":28672,"vocab_size":32000})"},
    {"Llama-3.1-8B", 8030261248,
     R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256})"},
    {"Llama-3.2-3B", 3212749824,
     R"({"model_type":"llama","hidden_size":3072,"num_attention_heads":24,"num_hidden_layers":28,
         "num_key_value_heads":8,"head_dim":128,"intermediate_size":8192,"vocab_size":128256,
         "tie_word_embeddings":true})"},
    {"Llama-3.3-70B", 70553706496,
     R"({"model_type":"llama","hidden_size":8192,"num_attention_heads":64,"num_hidden_layers":80,
         "num_key_value_heads":8,"intermediate_size":28672,"vocab_size":128256})"},
    {"TinyLlama-1.1B", 1100048384,
     R"({"model_type":"llama","hidden_size":2048,"num_attention_heads":32,"num_hidden_layers":22,
         "num_key_value_heads":4,"intermediate_size":5632,"vocab_size":32000})"},
    {"Mistral-7B", 7241732096,
     R"({"model_type":"mistral","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,
         "sliding_window":4096})"},
    {"Mixtral-8x7B", 46702792704,
     R"({"model_type":"mixtral","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,
         "num_local_experts":8,"num_experts_per_tok":2})"},
    {"Yi-6B", 6061035520,
     R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":4,"intermediate_size":11008,"vocab_size":64000})"},
    {"Yi-34B", 34388917248,
     R"({"model_type":"llama","hidden_size":7168,"num_attention_heads":56,"num_hidden_layers":60,
         "num_key_value_heads":8,"intermediate_size":20480,"vocab_size":64000})"},
    {"Baichuan2-7B", 7505973248,
     R"({"model_type":"baichuan","hidden_size":4096,"num_attention_heads":32,
         "num_hidden_layers":32,"intermediate_size":11008,"vocab_size":125696})"},
    {"Baichuan2-13B", 13896668160,
     R"({"model_type":"baichuan","hidden_size":5120,"num_attention_heads":40,
         "num_hidden_layers":40,"intermediate_size":13696,"vocab_size":125696})"},
    {"Qwen-1.8B", 1836828672,
     R"({"model_type":"qwen","hidden_size":2048,"num_attention_heads":16,"num_hidden_layers":24,
         "intermediate_size":11008,"vocab_size":151936,"kv_channels":128})"},
    {"Qwen-7B", 7721324544,
     R"({"model_type":"qwen","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":32,
         "intermediate_size":22016,"vocab_size":151936,"kv_channels":128})"},
    {"Qwen-14B", 14167290880,
     R"({"model_type":"qwen","hidden_size":5120,"num_attention_heads":40,"num_hidden_layers":40,
         "intermediate_size":27392,"vocab_size":152064,"kv_channels":128})"},
    {"Qwen-72B", 72287920128,
     R"({"model_type":"qwen","hidden_size":8192,"num_attention_heads":64,"num_hidden_layers":80,
         "intermediate_size":49152,"vocab_size":152064,"kv_channels":128})"},
    {"Qwen1.5-7B", 7721324544,
     R"({"model_type":"qwen2","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":32,"intermediate_size":11008,"vocab_size":151936,
         "tie_word_embeddings":false})"},
    {"Qwen2.5-3B", 3085938688,
     R"({"model_type":"qwen2","hidden_size":2048,"num_attention_heads":16,"num_hidden_layers":36,
         "num_key_value_heads":2,"intermediate_size":11008,"vocab_size":151936,
         "tie_word_embeddings":true})"},
    {"Qwen3-14B", 14768307200,
     R"({"model_type":"qwen3","hidden_size":5120,"num_attention_heads":40,"num_hidden_layers":40,
         "num_key_value_heads":8,"head_dim":128,"intermediate_size":17408,"vocab_size":151936,
         "attention_bias":false,"tie_word_embeddings":false})"},
    {"Qwen1.5-MoE-A2.7B", 14315784192,
     R"({"model_type":"qwen2_moe","hidden_size":2048,"num_attention_heads":16,
         "num_hidden_layers":24,"num_key_value_heads":16,"intermediate_size":5632,
         "moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,
         "num_experts_per_tok":4,"decoder_sparse_step":1,"vocab_size":151936})"},
    {"Qwen3-30B-A3B", 30532122624,
     R"({"model_type":"qwen3_moe","hidden_size":2048,"num_attention_heads":32,
         "num_hidden_layers":48,"num_key_value_heads":4,"head_dim":128,"intermediate_size":6144,
         "moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,
         "decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":151936})"},
    {"DeepSeek-V2-Lite", 15706484224,
     R"({"model_type":"deepseek_v2","hidden_size":2048,"num_attention_heads":16,
         "num_hidden_layers":27,"num_key_value_heads":16,"intermediate_size":10944,
         "moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,
         "num_experts_per_tok":6,"first_k_dense_replace":1,"moe_layer_freq":1,
         "q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
         "v_head_dim":128,"vocab_size":102400})"},
    {"gemma-2b", 2506172416,
     R"({"model_type":"gemma","hidden_size":2048,"num_attention_heads":8,"num_hidden_layers":18,
         "num_key_value_heads":1,"head_dim":256,"intermediate_size":16384,"vocab_size":256000})"},
    {"gemma-7b", 8537680896,
     R"({"model_type":"gemma","hidden_size":3072,"num_attention_heads":16,"num_hidden_layers":28,
         "num_key_value_heads":16,"head_dim":256,"intermediate_size":24576,"vocab_size":256000})"},
    {"gemma-2-2b", 2614341888,
     R"({"model_type":"gemma2","hidden_size":2304,"num_attention_heads":8,"num_hidden_layers":26,
         "num_key_value_heads":4,"head_dim":256,"intermediate_size":9216,"vocab_size":256000})"},
    {"phi-1.5", 1418270720,
     R"({"model_type":"phi","hidden_size":2048,"num_attention_heads":32,"num_hidden_layers":24,
         "intermediate_size":8192,"vocab_size":51200})"},
    {"phi-2", 2779683840,
     R"({"model_type":"phi","hidden_size":2560,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":null,"intermediate_size":10240,"vocab_size":51200})"},
    {"Phi-3-mini", 3821079552,
     R"({"model_type":"phi3","hidden_size":3072,"num_attention_heads":32,"num_hidden_layers":32,
         "num_key_value_heads":32,"intermediate_size":8192,"vocab_size":32064})"},
    {"glm-4-9b", 9399951360,
     R"({"model_type":"chatglm","hidden_size":4096,"num_attention_heads":32,"num_layers":40,
         "multi_query_attention":true,"multi_query_group_num":2,"kv_channels":128,
         "ffn_hidden_size":13696,"padded_vocab_size":151552,"vocab_size":151552,
         "add_qkv_bias":true,"seq_length":131072})"},
    {"opt-1.3b", 1315758080,
     R"({"model_type":"opt","hidden_size":2048,"num_attention_heads":32,"num_hidden_layers":24,
         "ffn_dim":8192,"vocab_size":50272,"max_position_embeddings":2048,
         "word_embed_proj_dim":2048})"},
    {"opt-350m", 331196416,
     R"({"model_type":"opt","hidden_size":1024,"num_attention_heads":16,"num_hidden_layers":24,
         "ffn_dim":4096,"vocab_size":50272,"max_position_embeddings":2048,
         "word_embed_proj_dim":512,"do_layer_norm_before":false})"},
    {"bloom-7b1", 7069016064,
     R"({"model_type":"bloom","hidden_size":4096,"n_head":32,"n_layer":30,"vocab_size":250880,
         "seq_length":2048})"},
    {"falcon-7b", 6921720704,
     R"({"model_type":"falcon","hidden_size":4544,"num_attention_heads":71,"num_hidden_layers":32,
         "multi_query":true,"parallel_attn":true,"bias":false,"new_decoder_architecture":false,
         "vocab_size":65024})"},
    {"falcon-40b", 41303293952,
     R"({"model_type":"falcon","hidden_size":8192,"num_attention_heads":128,
         "num_hidden_layers":60,"num_kv_heads":8,"new_decoder_architecture":true,"bias":false,
         "vocab_size":65024})"},
    {"gpt-j-6b", 6050882784,
     R"({"model_type":"gptj","n_embd":4096,"n_head":16,"n_layer":28,"n_positions":2048,
         "vocab_size":50400})"},
    {"pythia-1.4b", 1414647808,
     R"({"model_type":"gpt_neox","hidden_size":2048,"num_attention_heads":16,
         "num_hidden_layers":24,"intermediate_size":8192,"vocab_size":50304})"},
    {"mpt-7b", 6649286656,
     R"({"model_type":"mpt","d_model":4096,"n_heads":32,"n_layers":32,"expansion_ratio":4,
         "no_bias":true,"vocab_size":50432,"max_seq_len":2048,
         "attn_config":{"alibi":true,"attn_impl":"torch"}})"},
    {"mpt-7b with biases and positions", 6658859008,
     R"({"model_type":"mpt","d_model":4096,"n_heads":32,"n_layers":32,"expansion_ratio":4,
         "no_bias":false,"vocab_size":50368,"max_seq_len":2048,"attn_config":{"alibi":false}})"},
    {"t5-small", 60506624,
     R"({"model_type":"t5","d_model":512,"d_kv":64,"d_ff":2048,"num_heads":8,"num_layers":6,
         "feed_forward_proj":"relu","relative_attention_num_buckets":32,"vocab_size":32128})"},
    {"t5-large", 737668096,
     R"({"model_type":"t5","d_model":1024,"d_kv":64,"d_ff":4096,"num_heads":16,"num_layers":24,
         "relative_attention_num_buckets":32,"vocab_size":32128})"},
    {"t5-3b", 2851598336,
     R"({"model_type":"t5","d_model":1024,"d_kv":128,"d_ff":16384,"num_heads":32,"num_layers":24,
         "relative_attention_num_buckets":32,"vocab_size":32128})"},
    {"bart-large", 406291456,
     R"({"model_type":"bart","d_model":1024,"encoder_layers":12,"decoder_layers":12,
         "encoder_attention_heads":16,"encoder_ffn_dim":4096,"max_position_embeddings":1024,
         "num_hidden_layers":12,"vocab_size":50265})"},
    {"bert-large", 335141888,
     R"({"model_type":"bert","hidden_size":1024,"num_attention_heads":16,"num_hidden_layers":24,
         "intermediate_size":4096,"max_position_embeddings":512,"type_vocab_size":2,
         "vocab_size":30522})"},
    {"roberta-base", 124645632,
     R"({"model_type":"roberta","hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,
         "intermediate_size":3072,"max_position_embeddings":514,"type_vocab_size":1,
         "vocab_size":50265})"},
    {"distilbert", 66362880,
     R"({"model_type":"distilbert","dim":768,"n_heads":12,"n_layers":6,"hidden_dim":3072,
         "max_position_embeddings":512,"vocab_size":30522})"},
    {"deberta-v3-base", 183831552,
     R"({"model_type":"deberta-v2","hidden_size":768,"num_attention_heads":12,
         "num_hidden_layers":12,"intermediate_size":3072,"max_position_embeddings":512,
         "position_buckets":256,"vocab_size":128100})"},
    {"vit-base", 85798656,
     R"({"model_type":"vit","hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,
         "intermediate_size":3072,"image_size":224,"patch_size":16,"num_channels":3})"},
    {"dinov2-base", 86580480,
     R"({"model_type":"dinov2","hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,
         "mlp_ratio":4,"image_size":518,"patch_size":14})"},
};

TEST(HfConfig, CountsEveryPublishedModelExactly) {
  for (const Published& model : kPublished) {
    const auto card = ReadHfConfig(model.config, "config.json");
    ASSERT_TRUE(card) << model.name << ": " << FormatError(card.error());
    EXPECT_EQ(card->params, model.params) << model.name;
    EXPECT_EQ(card->origins.at("params").origin, Origin::kDerived) << model.name;
  }
}

ModelCard Read(const std::string& text) {
  const auto card = ReadHfConfig(text, "config.json");
  EXPECT_TRUE(card) << (card ? "" : FormatError(card.error()));
  return card ? *card : ModelCard{};
}

std::string ErrorOf(const std::string& text) {
  const auto card = ReadHfConfig(text, "model/config.json");
  if (card) return "accepted with " + std::to_string(card->params);
  EXPECT_EQ(card.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(card.error().where && card.error().where->file == "model/config.json");
  return card.error().message;
}

TEST(HfConfig, CountsWhatOneTokenPassesOfTheExperts) {
  EXPECT_EQ(Read(R"({"model_type":"mixtral","hidden_size":4096,"num_attention_heads":32,
      "num_hidden_layers":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,
      "num_local_experts":8,"num_experts_per_tok":2})")
                .active_params,
            12879925248);
}

TEST(HfConfig, AssumesActiveExpertsWhereTheyAreNotWritten) {
  const ModelCard card = Read(R"({"model_type":"mixtral","num_local_experts":8})");
  EXPECT_EQ(card.experts_active, 2);
  EXPECT_EQ(card.origins.at("experts_active").origin, Origin::kAssumed);
  EXPECT_EQ(card.active_params, 12879925248);
}

TEST(HfConfig, ReadsGroupedHeadsAndLengths) {
  const ModelCard card = Read(R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,
      "num_hidden_layers":32,"num_key_value_heads":8,"intermediate_size":14336,
      "vocab_size":128256,"max_position_embeddings":131072})");
  EXPECT_EQ(card.kv_heads, 8);
  EXPECT_EQ(card.head_dim, 128);
  EXPECT_EQ(card.seq, 131072);
  EXPECT_TRUE(card.gated_ffn);
  EXPECT_EQ(card.origins.at("layers").origin, Origin::kStated);
}

// save_pretrained writes with json.dumps, and has a bare Infinity in time_step_limit of Mamba 2.
TEST(HfConfig, ReadsWhatOnlyPythonTakesForJson) {
  const ModelCard card = Read(R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,
      "num_hidden_layers":32,"intermediate_size":14336,"vocab_size":128256,
      "time_step_limit":[0.0,Infinity],"max_position_embeddings":NaN})");
  EXPECT_EQ(card.layers, 32);
}

TEST(HfConfig, AddsTheVisionTowerOfALanguageModel) {
  const std::string text = R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,
      "num_hidden_layers":32,"intermediate_size":11008,"vocab_size":32064})";
  const ModelCard card = Read(R"({"model_type":"llava","text_config":)" + text +
                              R"(,"vision_config":{"model_type":"clip_vision_model",
      "hidden_size":1024,"num_hidden_layers":24,"intermediate_size":4096,"image_size":336,
      "patch_size":14}})");
  // LLaVA-1.5-7B has 7,063,427,072 parameters.
  EXPECT_NEAR(static_cast<double>(card.params), 7063427072.0, 0.001 * 7063427072.0);
  EXPECT_EQ(card.origins.at("params").origin, Origin::kAssumed);
}

TEST(HfConfig, CountsAnUnknownTypeLikeLlamaAndSaysSo) {
  const ModelCard card = Read(R"({"model_type":"zork","hidden_size":4096,"num_attention_heads":32,
      "num_hidden_layers":32,"intermediate_size":11008,"vocab_size":32000})");
  EXPECT_EQ(card.params, 6738415616);
  EXPECT_EQ(card.origins.at("params").origin, Origin::kAssumed);
}

// Parameters by transformers 5.23 on the meta device.
TEST(HfConfig, TakesTheDefaultsOfTheConfigurationClass) {
  const ModelCard llava = Read(R"({"architectures":["LlavaForConditionalGeneration"],
      "model_type":"llava","text_config":{"architectures":["LlamaForCausalLM"],
      "max_position_embeddings":4096,"model_type":"llama","vocab_size":32064},
      "vision_config":{"hidden_size":1024,"image_size":336,"intermediate_size":4096,
      "model_type":"clip_vision_model","num_attention_heads":16,"num_hidden_layers":24,
      "patch_size":14,"projection_dim":768,"vocab_size":32000}})");
  EXPECT_NEAR(static_cast<double>(llava.params), 7063427072.0, 1e-3 * 7063427072.0);
  EXPECT_EQ(llava.layers, 32);
  EXPECT_NE(llava.origins.at("layers").from.find("default of transformers"), std::string::npos);
  const ModelCard gemma = Read(R"({"architectures":["Gemma3ForConditionalGeneration"],
      "model_type":"gemma3","text_config":{"hidden_size":2560,"intermediate_size":10240,
      "model_type":"gemma3_text","num_hidden_layers":34,"sliding_window":1024},
      "vision_config":{"hidden_size":1152,"image_size":896,"intermediate_size":4304,
      "model_type":"siglip_vision_model","num_attention_heads":16,"num_hidden_layers":27,
      "patch_size":14,"vision_use_head":false}})");
  EXPECT_NEAR(static_cast<double>(gemma.params), 4300079472.0, 2e-3 * 4300079472.0);
}

TEST(HfConfig, KeepsTheTowerBesideFlatFields) {
  const ModelCard card = Read(R"({"architectures":["Qwen2VLForConditionalGeneration"],
      "hidden_size":3584,"intermediate_size":18944,"max_position_embeddings":32768,
      "model_type":"qwen2_vl","num_attention_heads":28,"num_hidden_layers":28,
      "num_key_value_heads":4,"tie_word_embeddings":false,"vocab_size":152064,
      "vision_config":{"depth":32,"embed_dim":1280,"mlp_ratio":4,"num_heads":16,"in_chans":3,
      "hidden_size":3584,"patch_size":14,"spatial_patch_size":14,"temporal_patch_size":2}})");
  EXPECT_NEAR(static_cast<double>(card.params), 8291375616.0, 0.01 * 8291375616.0);
  EXPECT_EQ(card.hidden, 3584);
}

TEST(HfConfig, CountsNetworksThatShareWidenOrPairTheirParts) {
  const std::pair<const char*, std::int64_t> models[] = {
      {R"({"model_type":"albert","hidden_size":768,"embedding_size":128,"num_hidden_layers":12,
          "num_attention_heads":12,"intermediate_size":3072,"vocab_size":30000})",
       11683584},
      {R"({"model_type":"electra"})", 13483008},
      {R"({"model_type":"electra","hidden_size":1024,"embedding_size":1024,"num_hidden_layers":24,
          "num_attention_heads":16,"intermediate_size":4096})",
       334092288},
      {R"({"model_type":"esm","hidden_size":1280,"num_hidden_layers":33,"num_attention_heads":20,
          "intermediate_size":5120,"vocab_size":33,"position_embedding_type":"rotary",
          "max_position_embeddings":1026,"emb_layer_norm_before":false,"token_dropout":true})",
       651040661},
      {R"({"model_type":"clip"})", 151277313},
      {R"({"model_type":"siglip","text_config":{"model_type":"siglip_text_model"},
          "vision_config":{"model_type":"siglip_vision_model"}})",
       203155970},
      {R"({"model_type":"siglip_vision_model","hidden_size":1152,"num_hidden_layers":27,
          "num_attention_heads":16,"intermediate_size":4304,"image_size":384,"patch_size":14})",
       428225600},
      {R"({"model_type":"siglip_vision_model","hidden_size":1152,"num_hidden_layers":27,
          "num_attention_heads":16,"intermediate_size":4304,"image_size":896,"patch_size":14,
          "vision_use_head":false})",
       416866032},
  };
  for (const auto& [config, params] : models) EXPECT_EQ(Read(config).params, params) << config;
}

TEST(HfConfig, AsksForParametersOfWhatIsNotBuiltLikeLlama) {
  const std::string shape = R"(,"hidden_size":768,"num_attention_heads":12,"vocab_size":32000,
      "num_hidden_layers":12,"intermediate_size":3072)";
  for (const char* other :
       {R"({"model_type":"mamba2")", R"({"model_type":"jamba")", R"({"model_type":"wav2vec2")",
        R"({"model_type":"beit")", R"({"model_type":"zork","state_size":16)",
        R"({"model_type":"zork","image_size":224)",
        R"({"model_type":"zork","layer_types":["linear_attention","full_attention"])",
        R"({"model_type":"zork","architectures":["ZorkForMaskedLM"])"}) {
    const std::string error = ErrorOf(other + shape + "}");
    EXPECT_NE(error.find("cannot be counted"), std::string::npos) << other << ": " << error;
  }
  EXPECT_EQ(
      Read(R"({"model_type":"zork","architectures":["ZorkForCausalLM"])" + shape + "}").layers, 12);
}

TEST(HfConfig, RefusesAnArchitectureItCannotCount) {
  EXPECT_EQ(ErrorOf(R"({"model_type":"resnet","hidden_sizes":[256,512],"depths":[3,4]})"),
            "the parameters of model_type \"resnet\" cannot be counted from its configuration");
  EXPECT_EQ(ErrorOf("{}"), "the parameters of this model cannot be counted from its configuration");
}

TEST(HfConfig, RefusesWhatIsNoConfiguration) {
  EXPECT_EQ(ErrorOf(""), "not valid JSON");
  EXPECT_EQ(ErrorOf("{\"hidden_size\": 4096,"), "not valid JSON");
  EXPECT_EQ(ErrorOf("{\"hidden_size\": 1e999}"), "not valid JSON");
  EXPECT_EQ(ErrorOf("\x80\x02}q\x00."), "not valid JSON");
  EXPECT_EQ(ErrorOf("[1, 2]"), "not a JSON object");
  EXPECT_EQ(ErrorOf("{\"a\":" + std::string(200'000, '[')), "not valid JSON");
  EXPECT_EQ(ErrorOf(std::string(17 << 20, ' ')), "larger than 16 MiB: not a model's config.json");
}

TEST(HfConfig, RefusesSizesThatCannotBe) {
  const auto with = [](const std::string& layers) {
    return R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,
        "intermediate_size":11008,"vocab_size":32000,"num_hidden_layers":)" +
           layers + "}";
  };
  for (const char* bad :
       {"0", "-1", "1.5", "\"32\"", "true", "[32]", "1e30", "99999999999999999999"})
    EXPECT_TRUE(ErrorOf(with(bad)).starts_with("num_hidden_layers is ")) << bad;
  EXPECT_TRUE(Read(with("32.0")).layers == 32);
}

TEST(HfConfig, RefusesProductsBeyondEveryModel) {
  for (const char* text :
       {R"({"model_type":"llama","hidden_size":1000000000,"num_attention_heads":1000000000,
           "num_hidden_layers":1000000000,"intermediate_size":1000000000,"vocab_size":1000000000})",
        R"({"model_type":"gpt2","n_embd":9000000,"n_head":1,"n_layer":99999,"vocab_size":1000000000,
           "n_positions":1000000000})",
        R"({"model_type":"deepseek_v3","hidden_size":7168,"num_attention_heads":128,
           "num_hidden_layers":61,"intermediate_size":18432,"moe_intermediate_size":1000000000,
           "n_routed_experts":1000000000,"num_experts_per_tok":8,"kv_lora_rank":1000000000,
           "qk_nope_head_dim":1000000000,"qk_rope_head_dim":64,"v_head_dim":128,
           "vocab_size":129280})",
        R"({"model_type":"vit","hidden_size":1000000000,"num_hidden_layers":1000000000,
           "intermediate_size":1000000000,"image_size":1000000000,"patch_size":1})",
        R"({"model_type":"mixtral","hidden_size":4096,"num_attention_heads":32,
           "num_hidden_layers":32,"intermediate_size":14336,"vocab_size":32000,
           "num_local_experts":2,"num_experts_per_tok":8})"}) {
    const auto card = ReadHfConfig(text, "config.json");
    EXPECT_FALSE(card) << card->params;
  }
}

}  // namespace
}  // namespace launch
