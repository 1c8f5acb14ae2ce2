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

// Does `row` take no more memory than `plan` by any of its fields?
bool LoosensNothing(const Fallback& row, const Plan& plan);

// Of a row that differs from `plan`.
LighterStep StepOf(const Fallback& row, const Plan& plan);

// `row` with every field that is looser than that of `plan` taken from there.
Fallback NoLooserThan(const Plan& plan, Fallback row);

}  // namespace launch
