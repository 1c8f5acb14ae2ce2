#include <algorithm>

#include "planner/cost/memory_parts.h"
#include "planner/model/strategy.h"

namespace launch {

namespace {

bool LoadsWholeModel(const TrainingSetup& setup) {
  return setup.framework == Framework::kLitgpt &&
         (setup.base != BaseFormat::kSame || setup.strategy == Strategy::kFsdp);
}

}  // namespace

double WholeWeights(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c) {
  const double params = static_cast<double>(card.params);
  const double outside = static_cast<double>(card.embedding_params + card.head_params);
  const double inside = std::max(0.0, params - outside);
  switch (setup.base) {
    case BaseFormat::kSame:
      break;
    case BaseFormat::kInt8:
      return inside + 2 * outside;
    case BaseFormat::kNf4:
      // Hugging Face's preparation for k-bit training casts what is not quantized to fp32.
      return c.four_bit * inside + (setup.framework == Framework::kHf ? 4 : 2) * outside;
    case BaseFormat::kGptq4:
      return c.four_bit * inside + 2 * outside;
  }
  return StateBytesOf(setup.format, setup.optimizer).weight * params;
}

StateParts StatesOf(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c) {
  const Shards shards = ShardsOf(setup);
  const double parts = setup.pipeline_parts;
  const StateBytes bytes = StateBytesOf(setup.format, setup.optimizer);
  const bool lora = setup.lora_rank > 0;
  const double trained = TrainedParams(card, setup);
  StateParts states;
  StateBytes per = bytes;
  states.weights = WholeWeights(card, setup, c) / shards.weights / parts;
  if (lora) {
    // PEFT keeps adapters in fp32 beside a 16-bit base; the others train them in the base's format.
    if (setup.framework == Framework::kHf || setup.framework == Framework::kUnknown)
      per = StateBytesOf(StateFormat::kFp32, setup.optimizer);
    states.adapters = per.weight * trained / shards.weights / parts;
  }
  states.gradients = per.gradient * trained / shards.gradients / parts;
  states.optimizer = per.optimizer * trained / shards.optimizer / parts;
  const double stepped = trained / shards.optimizer / parts;
  states.step = per.step * stepped;
  if (setup.framework == Framework::kTorchtune) states.step = 0;  // its recipes ask for fused
  if (setup.strategy == Strategy::kZero3 && per.step > 0)
    states.step = c.sub_group_bytes * std::min(c.sub_group, stepped);
  if (setup.optimizer.in_backward)  // the largest gradient lives until its step
    states.gradients =
        bytes.weight * static_cast<double>(std::max(card.embedding_params, card.layer_params / 7));
  if (setup.offload != Offload::kNone) {
    states.optimizer = states.step = 0;
    if (ZeroStage(setup.strategy) >= 2 || IsFsdp(setup.strategy)) states.gradients = 0;
  }
  if (setup.optimizer.paged) states.optimizer = 0;
  if (HostHoldsWeights(setup)) states.weights = states.adapters = 0;
  if (setup.format == StateFormat::kAmp)
    states.autocast = 2 * static_cast<double>(card.params) / parts;
  states.load = states.weights;
  if (LoadsWholeModel(setup))
    states.load = 2 * static_cast<double>(card.params) + (shards.weights > 1 ? states.weights : 0);
  return states;
}

bool KeepsGradients(const TrainingSetup& setup) {
  if (setup.optimizer.in_backward) return false;
  if (setup.keeps_gradients) return *setup.keeps_gradients;
  switch (setup.framework) {
    case Framework::kTorchtitan:
    case Framework::kTorchtune:
      return false;  // their recipes step after every micro-batch and set gradients to None
    case Framework::kUnknown:
    case Framework::kHf:
    case Framework::kMegatron:
    case Framework::kLitgpt:
    case Framework::kLlmFoundry:  // cuts a device's batch into micro-batches and adds them up
      return true;
  }
  return true;
}

}  // namespace launch
