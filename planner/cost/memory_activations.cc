#include <algorithm>

#include "planner/cost/memory_parts.h"

namespace launch {

namespace {

bool IsFusedTrainer(const TrainingSetup& setup) {
  return setup.framework == Framework::kMegatron || setup.framework == Framework::kLlmFoundry;
}

// Widths in elements per token.
struct Widths {
  double hidden = 0;
  double query = 0;
  double key = 0;
  double ffn = 0;      // of the experts one token passes
  double element = 2;  // bytes
};

Widths WidthsOf(const ModelCard& card, const TrainingSetup& setup) {
  Widths w;
  w.hidden = static_cast<double>(card.hidden);
  w.query = static_cast<double>(card.heads) * static_cast<double>(card.head_dim);
  w.key = static_cast<double>(card.kv_heads) * static_cast<double>(card.head_dim);
  w.ffn = static_cast<double>(card.ffn) *
          static_cast<double>(std::max<std::int64_t>(1, card.experts_active));
  w.element = ComputeBytes(setup.format);
  return w;
}

// Bytes one block keeps for its backward, per token, without attention scores.
double BlockBytes(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c) {
  const Widths w = WidthsOf(card, setup);
  const bool fused = IsFusedTrainer(setup) || setup.compiled;
  // Grouped keys and values are expanded to all heads by eager code.
  const double keys = fused ? 2 * w.key : 2 * w.query;
  // Norms that are not RMS (plain MLPs tell them) keep no fp32 copy, nor do torchtitan's kernels.
  const bool lean = fused || !card.gated_ffn || setup.framework == Framework::kTorchtitan;
  double norms = lean ? c.norm_fused : c.norm_eager;
  if (setup.framework == Framework::kLlmFoundry) norms = c.norm_plain;
  if (setup.format == StateFormat::kAmp) norms += c.norm_amp;
  const double mlp = !card.gated_ffn ? c.mlp_plain : fused ? c.mlp_gated_compiled : c.mlp_gated;
  return w.element * (norms * w.hidden + 2 * w.query + keys + mlp * w.ffn);
}

// Of a block with every second matrix product kept, the attention's output and the block's input.
double SelectiveBytes(const ModelCard& card, const TrainingSetup& setup) {
  const Widths w = WidthsOf(card, setup);
  const double products =
      w.query + 2 * w.key + w.hidden + (card.gated_ffn ? 2 : 1) * w.ffn + w.hidden;
  return w.element * (w.hidden + w.query + products / 2);
}

double ScoreBytes(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c) {
  if (setup.attention == Attention::kFlash) return 0;
  // Models since Llama compute the softmax in fp32; encoders keep the scores with their mask.
  const bool in_fp32 = card.gated_ffn || card.architecture == Architecture::kEncoder;
  double bytes = c.scores_half;
  if (setup.format == StateFormat::kFp32)
    bytes = c.scores_fp32;
  else if (setup.format == StateFormat::kAmp || (setup.framework == Framework::kHf && in_fp32))
    bytes = c.scores_amp;
  return bytes * static_cast<double>(setup.micro_batch) * static_cast<double>(card.heads) *
         static_cast<double>(setup.seq) * static_cast<double>(setup.seq);
}

double LogitsPerEntry(const TrainingSetup& setup, const MemoryConstants& c) {
  switch (setup.loss) {
    case LossPath::kClassification:
    case LossPath::kFused:
      return 0;
    case LossPath::kChunked:
      return c.logits_chunked;
    case LossPath::kFull:
      break;
  }
  // llm-foundry's loss is a kernel of its own, compiled or not, and shifts labels, not logits.
  const bool kernel = setup.framework == Framework::kLlmFoundry;
  if (setup.half_compute && !kernel) return c.logits_half;
  if (setup.compiled && !kernel) return c.logits_compiled;
  switch (setup.framework) {
    case Framework::kUnknown:
    case Framework::kHf:
      return c.logits_eager;
    case Framework::kTorchtune:
    case Framework::kTorchtitan:
      return c.logits_copied;
    case Framework::kMegatron:
    case Framework::kLitgpt:
      return c.logits_fused;
    case Framework::kLlmFoundry:
      return c.logits_kernel;
  }
  return c.logits_eager;
}

}  // namespace

ActivationParts ActivationsOf(const ModelCard& card, const TrainingSetup& setup,
                              const MemoryConstants& c) {
  ActivationParts parts;
  if (!HasShape(card)) return parts;
  const Widths w = WidthsOf(card, setup);
  const double tokens = static_cast<double>(setup.micro_batch) * static_cast<double>(setup.seq);
  const double layers = static_cast<double>(card.layers) / setup.pipeline_parts;
  const double scores = ScoreBytes(card, setup, c);
  const double block = tokens * BlockBytes(card, setup, c) + scores;
  const double input = tokens * w.element * w.hidden;
  switch (setup.checkpointing) {
    case Checkpointing::kNone:
      parts.saved = layers * block;
      break;
    case Checkpointing::kSelectiveOp:
      parts.saved = layers * tokens * SelectiveBytes(card, setup);
      parts.stored = parts.saved;
      break;
    case Checkpointing::kSelectiveLayer:
      parts.saved = layers / 2 * (block + input);
      parts.stored = layers / 2 * input;
      break;
    case Checkpointing::kFull:
      parts.saved = parts.stored = layers * input;
      break;
    case Checkpointing::kFullOffload:
      parts.saved = parts.stored = 2 * input;  // on their way to the host and back
      break;
  }
  // One block computed again, and the gradients of its widest products.
  parts.block = block + tokens * w.element * (w.hidden + w.ffn);
  const double vocab = static_cast<double>(card.vocab);
  parts.logits = LogitsPerEntry(setup, c) * tokens * vocab;
  if (setup.framework == Framework::kLlmFoundry && setup.loss == LossPath::kFull) {
    parts.held = c.logits_held * tokens * vocab;
    parts.metrics = c.logits_metrics * tokens * vocab;
  }
  if (setup.eval_batch > 0 && setup.loss != LossPath::kClassification)
    parts.evaluation = std::max(6.0, LogitsPerEntry(setup, c) / 2) *  // no gradients
                       static_cast<double>(setup.eval_batch) * static_cast<double>(setup.seq) *
                       vocab;
  return parts;
}

}  // namespace launch
