// Models that several tests of the forecast use.
#pragma once

#include "planner/model/model_card.h"

namespace launch::testing {

// As its configuration states it; nothing derived yet.
inline ModelCard Llama2_7B() {
  ModelCard card;
  card.architecture = Architecture::kDecoder;
  card.params = 6'738'415'616;
  card.layers = 32;
  card.hidden = 4096;
  card.heads = 32;
  card.ffn = 11008;
  card.gated_ffn = true;
  card.vocab = 32000;
  return card;
}

}  // namespace launch::testing
