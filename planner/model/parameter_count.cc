#include "planner/model/parameter_count.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace launch {

namespace {

double Norm(const Blueprint& print, double width) {
  return Real(static_cast<int>(print.norm)) * width;
}

double AttentionOf(const CountInput& in) {
  const ModelCard& card = in.card;
  const Blueprint& print = in.blueprint;
  const double hidden = Real(card.hidden);
  const double heads = Real(card.heads);
  if (in.latent) {
    const LatentAttention& latent = *in.latent;
    const double query = heads * Real(latent.nope_dim + latent.rope_dim);
    const double q_rank = Real(latent.q_rank);
    const double kv_rank = Real(latent.kv_rank);
    return (q_rank > 0 ? hidden * q_rank + q_rank + q_rank * query : hidden * query) +
           hidden * (kv_rank + Real(latent.rope_dim)) + kv_rank +
           kv_rank * heads * Real(latent.nope_dim + latent.value_dim) +
           heads * Real(latent.value_dim) * hidden;
  }
  const double query = heads * Real(card.head_dim);
  const double key = Real(card.kv_heads) * Real(card.head_dim);
  double params = 2 * hidden * query + 2 * hidden * key;
  if (print.qkv_bias) params += query + 2 * key;
  if (print.out_bias) params += hidden;
  if (print.qk_norm == QkNorm::kPerHead) params += 2 * Real(card.head_dim);
  if (print.qk_norm == QkNorm::kWhole) params += query + key;
  return params;
}

double Mlp(const CountInput& in, std::int64_t width) {
  const double hidden = Real(in.card.hidden);
  const double ffn = Real(width);
  double params = (in.blueprint.gated ? 3 : 2) * hidden * ffn;
  if (in.blueprint.mlp_bias) params += (in.blueprint.gated ? 2 : 1) * ffn + hidden;
  return params;
}

struct Blocks {
  double all = 0;
  double largest = 0;
  double idle = 0;  // experts one token does not pass
};

Blocks DecoderBlocks(const CountInput& in) {
  const ModelCard& card = in.card;
  const double frame = AttentionOf(in) + in.blueprint.norms * Norm(in.blueprint, Real(card.hidden));
  const double layers = Real(card.layers);
  if (card.experts == 0) {
    const double block = frame + Mlp(in, card.ffn);
    return {layers / Real(card.block_repeats) * block, block, 0};
  }
  const double expert = Mlp(in, card.ffn);
  double sparse = frame + Real(card.experts) * expert + Real(card.hidden) * Real(card.experts);
  if (in.moe.shared_ffn > 0) sparse += Mlp(in, in.moe.shared_ffn);
  if (in.moe.shared_gate) sparse += Real(card.hidden);
  const double dense_layers = std::min(layers, Real(in.moe.dense_layers));
  const double dense = frame + Mlp(in, in.moe.dense_ffn);
  const double sparse_layers = layers - dense_layers;
  return {sparse_layers * sparse + dense_layers * dense, sparse,
          sparse_layers * Real(card.experts - card.experts_active) * expert};
}

// T5 and BART: the decoder has a second attention and a third norm.
Blocks EncoderDecoderBlocks(const CountInput& in) {
  const double attention = AttentionOf(in);
  const double norm = Norm(in.blueprint, Real(in.card.hidden));
  const double mlp = Mlp(in, in.card.ffn);
  const double encoder = attention + mlp + 2 * norm;
  const double decoder = 2 * attention + mlp + 3 * norm;
  const double encoders = Real(in.encoder_layers);
  const double decoders = Real(in.card.layers - in.encoder_layers);
  return {encoders * encoder + decoders * decoder, std::max(encoder, decoder), 0};
}

}  // namespace

Result<ModelCard> CountParameters(const CountInput& in) {
  ModelCard card = in.card;
  const Blueprint& print = in.blueprint;
  const bool two_halves = print.architecture == Architecture::kEncoderDecoder;
  const double halves = two_halves ? 2 : 1;
  const double hidden = Real(card.hidden);
  const Blocks blocks = two_halves ? EncoderDecoderBlocks(in) : DecoderBlocks(in);
  const double words =
      Real(card.vocab) * (in.embedding_width > 0 ? Real(in.embedding_width) : hidden);
  const bool has_head = print.architecture == Architecture::kDecoder || two_halves;
  const double head = has_head && !card.tied ? words : 0;
  double params = blocks.all + words + head;
  if (has_head && print.head_bias) params += Real(card.vocab);
  if (print.learned_positions)
    params += halves * Real(in.positions + print.extra_positions) * hidden;
  params += Real(print.token_types) * hidden;
  if (print.embedding_norm) params += halves * Norm(print, hidden);
  if (print.final_norm) params += halves * Norm(print, hidden);
  if (print.pooler) params += hidden * hidden + hidden;
  params += halves * Real(in.relative_buckets) * Real(card.heads);
  params += Real(in.extra_params);
  if (!(params > 0 && params <= Real(kMaxParams)))
    return Fail(ErrorCode::kInvalidArgument,
                "the configuration describes more than 1e14 parameters");
  card.params = std::llround(params);
  card.active_params = std::llround(params - blocks.idle);
  card.embedding_params = std::llround(words);
  card.head_params = std::llround(head);
  card.layer_params = std::llround(blocks.largest);
  for (const char* field :
       {"params", "active_params", "embedding_params", "head_params", "layer_params"})
    card.origins[field] = FieldOrigin{Origin::kDerived, "configuration of " + card.family};
  return card;
}

std::int64_t CountVision(const VisionShape& s) {
  if (s.layers < 1 || s.hidden < 1 || s.ffn < 1 || s.image < 1 || s.patch < 1 || s.patch > s.image)
    return 0;
  const double hidden = Real(s.hidden);
  const double patches = std::pow(std::floor(Real(s.image) / Real(s.patch)), 2);
  const double attention = 4 * (hidden * hidden + hidden);
  const double mlp = (s.gated ? 3 : 2) * hidden * Real(s.ffn) + Real(s.ffn) + hidden;
  const double block = attention + mlp + 4 * hidden + (s.layer_scale ? 2 * hidden : 0);
  const double params =
      Real(s.layers) * block + Real(s.channels) * Real(s.patch) * Real(s.patch) * hidden +
      (s.patch_bias ? hidden : 0) + patches * hidden + (s.class_token ? 2 * hidden : 0) +
      (s.layer_scale ? hidden : 0) + s.norms_outside * 2 * hidden +
      (s.pooling_head ? attention + mlp + 3 * hidden : 0);
  return params <= Real(kMaxParams) ? std::llround(params) : 0;
}

}  // namespace launch
