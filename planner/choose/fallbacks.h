// What a run that is out of GPU memory may change to, in the order in which it is tried.
#pragma once

#include <vector>

#include "common/plan.h"
#include "planner/choose/choice.h"

namespace launch {

// The change that costs the most of those between a plan and one of less memory.
enum class LighterStep { kMicroBatch, kCheckpointing, kStage, kOffload };

// Plans of less memory than `taken` that are predicted to fit: up to three smaller micro-batches,
// each at most half the one before, then one each of recomputation, a higher stage, and offload,
// with the least other changes. The global batch is kept, and nothing of `taken` loosened; what the
// job fixed stays, but for the micro-batch. `peak_gib` is comparable with MemoryForecast::peak_gib.
std::vector<Fallback> FallbacksOf(const ChoiceInput& input, const JudgedOption& taken);

// Whether no field of `row` takes more memory than that of `plan`.
bool LoosensNothing(const Fallback& row, const Plan& plan);

// The costliest change from `plan` to `row`, which differs from it.
LighterStep StepOf(const Fallback& row, const Plan& plan);

// `row` with every field that is looser than that of `plan` taken from there.
Fallback NoLooserThan(const Plan& plan, Fallback row);

}  // namespace launch
