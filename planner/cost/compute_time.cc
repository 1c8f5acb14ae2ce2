#include "planner/cost/compute_time.h"

#include <algorithm>
#include <cmath>

#include "planner/model/adapters.h"

namespace launch {

namespace {

constexpr double kTile = 128;  // edge of the output tile of one multiprocessor

// Share of the multiprocessors that a product over `rows` tokens keeps busy: its output has
// rows x hidden / tile^2 tiles, and half of the last round of them is idle on average.
double Occupancy(double rows, double hidden, double sms) {
  const double tiles = std::ceil(rows / kTile) * std::max(1.0, hidden / kTile);
  return tiles / (tiles + 0.5 * sms);
}

}  // namespace

ComputeTime ComputeTimeOf(const ModelCard& card, const TrainingSetup& setup, Precision precision,
                          bool tuned, const GpuFigures& gpu, const TimeConstants& constants) {
  ComputeTime time;
  const double layers = Real(card.layers);
  const double hidden = Real(card.hidden);
  const double seq = Real(setup.seq);
  const double tokens = Real(setup.micro_batch) * seq;
  const double width =
      card.heads > 0 && card.head_dim > 0 ? Real(card.heads) * Real(card.head_dim) : hidden;
  const double element = IsFullWidth(precision) ? 2 : 1;  // relative to 16 bits
  const bool full = setup.checkpointing == Checkpointing::kFull ||
                    setup.checkpointing == Checkpointing::kFullOffload;
  // Selective recomputation repeats about half of the forward pass.
  double again = full ? 1 : (setup.checkpointing == Checkpointing::kNone ? 0 : 0.5);
  again *= constants.recompute_cost;
  // Gradients of weights are not computed where the weights are frozen.
  const double trained_share = setup.lora_rank > 0 ? 0 : 1;

  const double active = card.active_params > 0 ? Real(card.active_params) : Real(card.params);
  const double lookup = card.tied || card.embedding_params == 0 ? 0 : Real(card.embedding_params);
  const double head = card.tied ? Real(card.embedding_params) : Real(card.head_params);
  const double body = std::max(0.0, active - lookup - head) * Real(card.block_repeats);

  const double busy = Occupancy(tokens, hidden, gpu.sms.value_or(80));
  const double rate = MatmulRate(gpu, precision, constants) * busy;
  const Precision head_precision = precision == Precision::kFp8 ? Precision::kBf16 : precision;
  const double head_rate = MatmulRate(gpu, head_precision, constants) * busy;
  time.products = tokens * (2 * body * (2 + trained_share + again) / rate +
                            2 * head * (2 + trained_share) / head_rate);

  // Two products forward, five backward with the recomputed scores (FlashAttention), each 2 s per
  // token and element; a causal mask skips half.
  const double span = card.sliding_window > 0 ? std::min(seq, Real(card.sliding_window)) : seq;
  const double mask = card.architecture == Architecture::kEncoder ? 1 : 0.5;
  if (setup.attention == Attention::kFlash) {
    time.attention = tokens * layers * 2 * width * span * mask * (2 + 5 + 2 * again) /
                     AttentionRate(gpu, precision, constants);
  } else {
    const double heads = card.heads > 0 ? Real(card.heads) : std::max(1.0, hidden / 128);
    time.attention = tokens * layers *
                     (2 * width * seq * (2 + 4 + 2 * again) / rate +
                      heads * seq * constants.eager_score_bytes * element * (1 + again / 3) /
                          MemoryRate(gpu, constants));
  }

  // Wider blocks move more; gated MLPs and experts are seen in the parameters of a block.
  const double block = body / layers;
  const double size =
      std::clamp(block / (kBlockParamsPerHiddenSquared * hidden * hidden), 0.7, 2.0);
  const double adapted = AdaptedMatrices(card, setup);
  const double bytes =
      constants.elementwise_bytes * size * (tuned ? 1 : constants.eager_elementwise) +
      adapted * constants.adapter_bytes;
  const double memory = MemoryRate(gpu, constants);
  const double kernels_move = tuned ? memory : EagerRate(gpu, constants);
  time.elementwise = tokens * layers * hidden * bytes * element * (1 + again / 3) / kernels_move;
  // Weights that are cast for each pass: read in fp32, written and read in 16 bits.
  if (setup.format == StateFormat::kAmp && !IsFullWidth(precision)) {
    time.elementwise += 8 * active * (1 + again) / memory;
  }
  const bool fused = setup.loss == LossPath::kFused || setup.loss == LossPath::kClassification;
  const double logit = tuned ? constants.logit_bytes : constants.eager_logit_bytes;
  time.logits = fused ? 0 : tokens * Real(card.vocab) * logit / kernels_move;

  const double kernels = (tuned ? constants.tuned_kernels : constants.eager_kernels) +
                         adapted * constants.adapter_kernels;
  const double start = tuned ? constants.tuned_launch_seconds : constants.launch_seconds;
  time.starting = layers * kernels * start * (2 + (full ? 1 : 0));
  time.backward_share = 2.0 / (3 + again);

  const StateBytes state = StateBytesOf(setup.format, setup.optimizer);
  time.optimizer_bytes = 2 * state.weight + state.gradient + 2 * state.optimizer;
  return time;
}

}  // namespace launch
