// The parts the phases of the memory model are put together from; bytes on one GPU.
#pragma once

#include "planner/cost/memory_constants.h"
#include "planner/cost/memory_model.h"
#include "planner/model/adapters.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

// Bytes of all frozen or trained weights, unsharded.
double WholeWeights(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c);

struct StateParts {
  double weights = 0;   // sharded or whole, as they rest
  double adapters = 0;  // weights of LoRA
  double gradients = 0;
  double optimizer = 0;  // states and fp32 master
  double step = 0;       // temporaries of the optimizer step
  double load = 0;       // weights while they are loaded
  double autocast = 0;   // 16-bit copies of fp32 weights
};
StateParts StatesOf(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c);

struct BufferParts {
  double gathered = 0;     // unsharded weights and gradients of the units in flight
  double buckets = 0;      // communication buckets
  double dequantized = 0;  // a 4-bit matrix in 16 bits
};
BufferParts BuffersOf(const ModelCard& card, const TrainingSetup& setup, const MemoryConstants& c);

struct ActivationParts {
  double saved = 0;       // kept by all blocks until their backward
  double stored = 0;      // of these, block inputs that stay when a block is computed again
  double block = 0;       // one block at work
  double logits = 0;      // logits and loss
  double held = 0;        // of the logits, what outlives the backward pass
  double metrics = 0;     // logits and their loss again, for metrics of the training batch
  double evaluation = 0;  // logits of an evaluation batch
};
ActivationParts ActivationsOf(const ModelCard& card, const TrainingSetup& setup,
                              const MemoryConstants& c);

HostMemory HostMemoryOf(const ModelCard& card, const TrainingSetup& setup,
                        const MemoryConstants& c);

// Elements of a communication bucket where none is set: DeepSpeed's default, or that of the Hugging
// Face examples.
double UsualBucket(Framework framework, const MemoryConstants& c);

// Do gradients live on while activations are full: accumulation, buckets and flat buffers.
bool KeepsGradients(const TrainingSetup& setup);

}  // namespace launch
