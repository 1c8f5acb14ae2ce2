// LoRA adapters: which linear layers of a block carry one, and what they hold.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

// PEFT's rank where a configuration names none (LoraConfig.r).
inline constexpr std::int64_t kUsualAdapterRank = 8;
inline constexpr std::int64_t kMaxAdapterRank = 65'536;

struct AdapterTargets {
  std::set<AdaptedLayer> layers;  // empty = every linear layer
  std::string unknown;            // the first name that says nothing: every layer is taken then
};

// "q_proj, v_proj", "all-linear", "c_attn": the module names of transformers' models and short
// forms of them, without regard to what stands before the last dot.
AdapterTargets AdapterTargetsOf(std::string_view targets);

// r (in + out) of every adapted matrix, in every expert; 0 in full training.
double AdapterParams(const ModelCard& card, const TrainingSetup& setup);

// Parameters that are trained: all that the card says are, or the adapters of the setup.
double TrainedParams(const ModelCard& card, const TrainingSetup& setup);

// Adapted matrices that a token passes in one block.
double AdaptedMatrices(const ModelCard& card, const TrainingSetup& setup);

}  // namespace launch
