// Reads a Hugging Face config.json into a model card.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"
#include "planner/model/model_card.h"

namespace launch {

// Knows the usual spellings of every size, the defaults of each `model_type` (tied embeddings,
// biases, norms, learned positions), grouped heads, experts (Mixtral, Qwen-MoE, DeepSeek),
// encoders, encoder-decoders, vision transformers, and language models with a vision tower
// (`text_config`, `vision_config`). For the types of model_families.cc the count is exact, apart
// from towers, whose projector is an estimate; other types that state layers and hidden are counted
// like Llama and marked assumed.
//
// kInvalidArgument, naming `path` and the key: text over 16 MiB, not JSON, not an object, a size
// that is not a whole number from 1 to 1e9, an architecture whose parameters cannot be counted from
// its configuration.
Result<ModelCard> ReadHfConfig(std::string_view text, const std::string& path);

}  // namespace launch
