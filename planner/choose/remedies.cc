#include "planner/choose/remedies.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/model/strategy.h"

namespace launch {

namespace {

struct Trial {
  TrainingSetup setup;
  std::int64_t accumulate = 1;
};

// Micro-batches below the present one that divide the samples of a step, from the largest.
std::vector<Trial> SmallerBatches(const RemedyInput& in) {
  std::vector<Trial> trials;
  if (in.setup.optimizer.in_backward) return trials;
  for (std::int64_t micro = in.setup.micro_batch - 1; micro >= 1; --micro) {
    if (in.setup.micro_batch * in.accumulate % micro != 0) continue;
    Trial trial{in.setup, in.setup.micro_batch * in.accumulate / micro};
    trial.setup.micro_batch = micro;
    trial.setup.keeps_gradients = true;
    trials.push_back(std::move(trial));
  }
  return trials;
}

std::vector<Trial> HalfPrecision(const RemedyInput& in) {
  if (in.setup.format != StateFormat::kFp32) return {};
  const bool adapters = in.setup.lora_rank > 0;
  Trial trial{in.setup, in.accumulate};
  trial.setup.format =
      FormatUnder(in.setup.strategy, FormatOf(Precision::kFp16, adapters), in.setup.lora_rank);
  return {trial};
}

std::vector<Trial> MoreCheckpointing(const RemedyInput& in) {
  std::vector<Trial> trials;
  for (const Checkpointing next : {Checkpointing::kSelectiveOp, Checkpointing::kFull}) {
    if (next <= in.setup.checkpointing) continue;
    trials.push_back({in.setup, in.accumulate});
    trials.back().setup.checkpointing = next;
  }
  return trials;
}

// A run keeps its family: DeepSpeed climbs its stages, FSDP goes from gradients to full.
std::vector<Strategy> StricterThan(Strategy strategy) {
  switch (strategy) {
    case Strategy::kDdp:
      return {Strategy::kZero1, Strategy::kZero2, Strategy::kZero3};
    case Strategy::kZero1:
      return {Strategy::kZero2, Strategy::kZero3};
    case Strategy::kZero2:
      return {Strategy::kZero3};
    case Strategy::kFsdpGradOp:
      return {Strategy::kFsdpHybrid, Strategy::kFsdp};
    case Strategy::kFsdpHybrid:
      return {Strategy::kFsdp};
    case Strategy::kAuto:
    case Strategy::kSingle:
    case Strategy::kZero3:
    case Strategy::kFsdp:
      return {};
  }
  return {};
}

Trial Under(Strategy strategy, const RemedyInput& in) {
  Trial trial{in.setup, in.accumulate};
  trial.setup.strategy = strategy;
  trial.setup.format = FormatUnder(strategy, in.setup.format, in.setup.lora_rank);
  return trial;
}

std::vector<Trial> HigherStages(const RemedyInput& in) {
  std::vector<Trial> trials;
  if (in.setup.ranks < 2) return trials;
  for (const Strategy next : StricterThan(in.setup.strategy)) trials.push_back(Under(next, in));
  return trials;
}

std::vector<Trial> Offloads(const RemedyInput& in) {
  std::vector<Trial> trials;
  const auto add = [&](Strategy strategy, Offload offload) {
    trials.push_back(Under(strategy, in));
    trials.back().setup.offload = offload;
  };
  const Strategy now = in.setup.strategy;
  if (IsFsdp(now)) {  // all or nothing
    if (in.setup.offload != Offload::kAll) add(Strategy::kFsdp, Offload::kAll);
    return trials;
  }
  if (in.setup.offload == Offload::kNone)
    add(ZeroStage(now) >= 2 ? now : Strategy::kZero2, Offload::kOptimizer);
  if (in.setup.offload != Offload::kAll) add(Strategy::kZero3, Offload::kAll);
  return trials;
}

class Finder {
 public:
  Finder(const RemedyInput& in, const MemoryEstimate& failed)
      : in_(in), failed_bytes_(DecisionBytes(failed)) {}

  // The mildest trial that fits, else the one that needs least.
  Result<void> Add(RemedyKind kind, const std::vector<Trial>& trials) {
    std::optional<Remedy> best;
    for (const Trial& trial : trials) {
      LAUNCH_ASSIGN_OR_RETURN(const MemoryEstimate estimate, PredictMemory(in_.card, trial.setup));
      const double bytes = DecisionBytes(estimate);
      if (bytes >= failed_bytes_ || !HostHolds(estimate)) continue;
      if (best && bytes >= best->bytes) continue;
      best =
          Remedy{kind, trial.setup, trial.accumulate, bytes, JudgeFit(estimate, in_.limit_bytes)};
      if (best->fit == FitVerdict::kYes) break;
    }
    if (best) remedies_.push_back(std::move(*best));
    return {};
  }

  std::vector<Remedy> Take() { return std::move(remedies_); }

 private:
  bool HostHolds(const MemoryEstimate& estimate) const {
    return in_.host_bytes <= 0 || estimate.host.bytes <= in_.host_bytes;
  }

  const RemedyInput& in_;
  double failed_bytes_;
  std::vector<Remedy> remedies_;
};

}  // namespace

Result<std::vector<Remedy>> MemoryRemedies(const RemedyInput& in) {
  if (in.accumulate < 1 || in.accumulate > 1'000'000'000)
    return Fail(ErrorCode::kInvalidArgument,
                "accumulation is " + std::to_string(in.accumulate) + ", not between 1 and 1e9");
  if (in.setup.micro_batch > 1'000'000)
    return Fail(ErrorCode::kInvalidArgument,
                "micro batch is " + std::to_string(in.setup.micro_batch) + ", above 1e6");
  LAUNCH_ASSIGN_OR_RETURN(const MemoryEstimate failed, PredictMemory(in.card, in.setup));
  Finder finder(in, failed);
  LAUNCH_RETURN_IF_ERROR(finder.Add(RemedyKind::kMicroBatch, SmallerBatches(in)));
  LAUNCH_RETURN_IF_ERROR(finder.Add(RemedyKind::kPrecision, HalfPrecision(in)));
  LAUNCH_RETURN_IF_ERROR(finder.Add(RemedyKind::kCheckpointing, MoreCheckpointing(in)));
  LAUNCH_RETURN_IF_ERROR(finder.Add(RemedyKind::kStage, HigherStages(in)));
  LAUNCH_RETURN_IF_ERROR(finder.Add(RemedyKind::kOffload, Offloads(in)));
  return finder.Take();
}

}  // namespace launch
