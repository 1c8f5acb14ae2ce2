#include "controller/core/remedy_effects.h"

#include <fmt/format.h>

#include <vector>

#include "controller/core/replan.h"
#include "planner/choose/fallbacks.h"
#include "planner/model/strategy.h"

namespace launch::controller {
namespace {

// Peak of the first plan of less memory that takes this step alone, or mainly; `fixed` is the field
// of the job that keeps it from being planned.
std::string PeakOf(const Plan& failed, const std::vector<Fallback>& rows, LighterStep step,
                   const std::string& fixed) {
  if (!failed.memory.peak_gib) return "not predictable: model unknown";
  for (const Fallback& row : rows) {
    if (!LoosensNothing(row, failed) || StepOf(row, failed) != step) continue;
    if (row.peak_gib >= *failed.memory.peak_gib) continue;
    const bool smaller = row.batch.micro < failed.batch.micro;
    if (step == LighterStep::kMicroBatch && !smaller) continue;
    const std::string micro = row.batch.micro && row.batch.micro != failed.batch.micro
                                  ? fmt::format("micro-batch {}, ", *row.batch.micro)
                                  : "";
    return fmt::format("{}peak {:.1f} GiB instead of {:.1f}", micro, row.peak_gib,
                       *failed.memory.peak_gib);
  }
  if (!fixed.empty()) return "not predicted: " + fixed;
  return "no such plan is predicted to fit";
}

std::string OfAllocator(const Verdict& verdict) {
  const auto unused = verdict.numbers.find("unallocated");
  if (unused == verdict.numbers.end()) return "what is reserved but unused comes back";
  return fmt::format("up to {:.2f} GiB that are reserved but unused come back", unused->second);
}

}  // namespace

std::string EffectsOfRemedies(const JobSpec& spec, const Plan& failed, const PlanChange& so_far,
                              const Verdict& verdict) {
  const bool fragmented = verdict.label == "cuda_oom_fragmentation";
  if (!fragmented && verdict.label != "cuda_oom") return {};
  std::vector<Fallback> rows = failed.fallbacks;
  rows.insert(rows.end(), so_far.left.begin(), so_far.left.end());
  std::string text;
  int number = 0;
  const auto add = [&](std::string_view remedy, const std::string& effect) {
    text += fmt::format("{}{}. {}: {}", number == 0 ? "" : "; ", number + 1, remedy, effect);
    ++number;
  };
  const auto step = [&](std::string_view remedy, LighterStep which, const std::string& fixed) {
    add(remedy, PeakOf(failed, rows, which, fixed));
  };
  if (fragmented && MayChangeAllocator(spec, failed))
    add("allocator (expandable_segments)", OfAllocator(verdict));
  if (failed.batch.micro.value_or(2) > 1) {
    step("smaller micro-batch with accumulation", LighterStep::kMicroBatch,
         failed.batch.global ? "" : "batch.global is not given");
  }
  if (failed.precision == Precision::kFp32 && spec.allow_precision_change) {
    add("16-bit precision", failed.memory.peak_gib
                                ? "activations are halved, weights and optimizer states stay"
                                : "not predictable: model unknown");
  }
  if (failed.checkpointing != "full") {
    step("activation checkpointing (20-30 % more time)", LighterStep::kCheckpointing,
         spec.model.fields.contains("activation_checkpointing")
             ? "the job fixes model.activation_checkpointing"
             : "");
  }
  const std::string strategy = spec.strategy == Strategy::kAuto ? "" : "the job fixes strategy";
  if (failed.world_size > 1 && ShardingOf(failed.strategy) < kMostSharding) {
    step("a higher stage of ZeRO or FSDP", LighterStep::kStage, strategy);
  }
  if (failed.offload != Offload::kAll) {
    step("offload", LighterStep::kOffload,
         spec.offload == Offload::kAuto ? strategy : "the job fixes offload");
  }
  return text;
}

}  // namespace launch::controller
