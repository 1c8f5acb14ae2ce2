#include "controller/core/remedy_effects.h"

#include <fmt/format.h>

#include <functional>

namespace launch::controller {
namespace {

using LikeThis = std::function<bool(const Fallback&)>;

// Peak of the first plan of less memory that is like this; the planner has them best first.
std::string PeakOf(const Plan& failed, const LikeThis& is_it) {
  if (!failed.memory.peak_gib) return "not predictable: model unknown";
  for (const Fallback& fallback : failed.fallbacks) {
    if (is_it(fallback)) {
      return fmt::format("peak {:.1f} GiB instead of {:.1f}", fallback.peak_gib,
                         *failed.memory.peak_gib);
    }
  }
  return "no such plan fits";
}

std::string OfAllocator(const Verdict& verdict) {
  const auto unused = verdict.numbers.find("unallocated");
  if (unused == verdict.numbers.end()) return "what is reserved but unused comes back";
  return fmt::format("up to {:.2f} GiB that are reserved but unused come back", unused->second);
}

}  // namespace

std::string EffectsOfRemedies(const JobSpec& spec, const Plan& failed, const Verdict& verdict) {
  const bool fragmented = verdict.label == "cuda_oom_fragmentation";
  if (!fragmented && verdict.label != "cuda_oom") return {};
  std::string text;
  int number = 0;
  const auto add = [&](std::string_view remedy, const std::string& effect) {
    text += fmt::format("{}{}. {}: {}", number == 0 ? "" : "; ", number + 1, remedy, effect);
    ++number;
  };
  const auto same = [&](const Fallback& other) {
    return other.strategy == failed.strategy && other.offload == failed.offload;
  };
  if (fragmented) add("allocator (expandable_segments)", OfAllocator(verdict));
  add("smaller micro-batch with accumulation", PeakOf(failed, [&](const Fallback& other) {
        return same(other) && other.checkpointing == failed.checkpointing &&
               other.batch.micro < failed.batch.micro;
      }));
  if (failed.precision == Precision::kFp32 && spec.allow_precision_change) {
    add("16-bit precision", failed.memory.peak_gib
                                ? "activations are halved, weights and optimizer states stay"
                                : "not predictable: model unknown");
  }
  add("activation checkpointing (20-30 % more time)", PeakOf(failed, [&](const Fallback& other) {
        return same(other) && other.checkpointing != failed.checkpointing;
      }));
  add("a higher stage of ZeRO or FSDP", PeakOf(failed, [&](const Fallback& other) {
        return other.strategy != failed.strategy && other.offload == failed.offload;
      }));
  add("offload",
      PeakOf(failed, [&](const Fallback& other) { return other.offload != failed.offload; }));
  return text;
}

}  // namespace launch::controller
