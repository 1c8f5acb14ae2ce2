// The sizes that configuration classes of transformers take where a config.json leaves them out.
#pragma once

#include <string_view>

#include "planner/model/model_card.h"

namespace launch {

// Fills layers, hidden, heads, kv_heads, head_dim, ffn, vocab and seq where they are 0 and the
// type's class has a default, and says so in `origins`. Published configurations rely on it: those
// of LLaVA write little more of their language model than its type.
void TakeClassDefaults(std::string_view model_type, ModelCard& card);

}  // namespace launch
