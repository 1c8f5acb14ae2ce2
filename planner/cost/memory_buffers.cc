#include <algorithm>

#include "planner/cost/memory_parts.h"
#include "planner/model/strategy.h"

namespace launch {

namespace {

// FSDP1 reduces the gradient of a whole flat unit from a padded copy; embedding and head are the
// root's one unit. FSDP2 (torchtitan) wraps them apart.
double ReduceStaging(const ModelCard& card, const TrainingSetup& setup) {
  if (setup.framework == Framework::kTorchtitan) return 0;
  return ComputeBytes(setup.format) *
         Real(std::max(card.layer_params, card.embedding_params + card.head_params));
}

// What DeepSpeed and FSDP hold unsharded while they compute, with the gradients of it.
double Gathered(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c) {
  const double params = Real(card.params);
  const double layer = Real(card.layer_params);
  const double outside = Real(card.embedding_params + card.head_params);
  const double width = ComputeBytes(setup.format);
  const double n = ShardsOf(setup).weights;
  const bool lora = setup.lora_rank > 0;
  switch (setup.strategy) {
    case Strategy::kFsdpGradOp:
      // All weights through forward and backward, and one gradient where there are any.
      if (!lora) return width * (params + layer);
      return n > 1 ? WholeWeights(card, setup, c) : 0;
    case Strategy::kFsdp:
    case Strategy::kFsdpHybrid:
      if (n <= 1) return 0;
      // A frozen unit has no gradient whose arrival would reshard it (torch up to 2.0).
      if (lora && setup.framework == Framework::kLitgpt) return width * params;
      return width * std::min(params, 2 * layer + outside) +
             (lora ? 0 : width * (layer + outside) + ReduceStaging(card, setup));
    case Strategy::kZero3:
      if (n <= 1) return 0;
      // Blocks up to the limit of live parameters, and the head on top of them.
      return width * std::min(params, std::max(c.max_live_parameters, 2 * layer) +
                                          Real(card.embedding_params)) +
             (lora ? 0 : width * std::max(layer, Real(card.embedding_params)));
    default:
      return 0;
  }
}

double Buckets(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c) {
  const double trained = TrainedParams(card, setup);
  const double width = ComputeBytes(setup.format);
  if (setup.strategy == Strategy::kDdp)  // gradient_as_bucket_view is off unless asked for
    return StateBytesOf(setup.format, setup.optimizer).gradient * trained;
  const int stage = ZeroStage(setup.strategy);
  const double usual = UsualBucket(setup.framework, c);
  // Half precision without autocast is DeepSpeed's engine at work, at stage 2 on one GPU.
  if (stage == 0) return setup.half_compute ? 4 * setup.reduce_bucket.value_or(usual) : 0;
  const double factor = setup.overlap_comm ? c.bucket_factor : 1;
  const auto bucket = [&](double elements) {
    return width * std::min(factor * elements, trained) / (stage == 3 ? 2 : 1);
  };
  if (setup.ranks == 1) {
    if (stage != 2) return 0;
    // Alone, stage 2 still copies gradients through its contiguous buffers, two with overlap_comm
    // (stage_1_and_2.py, setup_buckets), and with offload through one of the largest parameter.
    const double largest = Real(std::max(card.embedding_params, card.head_params));
    const double staging = setup.offload == Offload::kNone ? 0 : width * largest;
    return (setup.overlap_comm ? 2 : 1) * width * setup.reduce_bucket.value_or(usual) + staging;
  }
  return bucket(setup.reduce_bucket.value_or(usual)) + bucket(setup.gather_bucket.value_or(usual));
}

}  // namespace

double UsualBucket(Framework framework, const MemoryConstants& c) {
  return framework == Framework::kHf ? c.bucket_hf : c.bucket_deepspeed;
}

BufferParts BuffersOf(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c) {
  BufferParts buffers;
  buffers.gathered = Gathered(card, setup, c) / setup.pipeline_parts;
  buffers.buckets = Buckets(card, setup, c) / setup.pipeline_parts;
  if (setup.base != BaseFormat::kSame)
    buffers.dequantized = 2 * static_cast<double>(card.hidden) * static_cast<double>(card.ffn);
  return buffers;
}

}  // namespace launch
