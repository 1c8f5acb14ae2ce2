#include "planner/choose/candidates.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/model/batch.h"
#include "planner/model/strategy.h"

namespace launch {

namespace {

constexpr std::int64_t kLargestFreeMicro = 1024;
// A batch of many divisors is tried at some of them: neighbours differ by a quarter or more, up to
// more samples than any GPU takes at once.
constexpr std::int64_t kLargestMicro = 65'536;
constexpr std::size_t kEnoughDivisors = 32;
constexpr double kWorthTrying = 1.25;

struct Way {
  Strategy strategy;
  Offload offload;
};

// What the user fixed in both respects is one way, tried by itself for nobody else or not.
bool CanBe(const Way& way, const RankShape& shape) {
  return TakesOffload(way.strategy, way.offload) &&
         (way.strategy != Strategy::kSingle || shape.ranks == 1);
}

bool Allowed(const Way& way, const OptionLimits& limits) {
  if (limits.strategy && *limits.strategy != way.strategy) return false;
  if (limits.offload && *limits.offload != way.offload) return false;
  return limits.can_shard || !IsSharded(way.strategy);
}

// Ways that mean something on that many ranks. One rank shards nothing, but ZeRO is what brings
// offload to it.
std::vector<Way> WaysOf(const OptionLimits& limits, const RankShape& shape) {
  const bool several = shape.ranks > 1;
  const bool nodes = shape.per_node > 1 && shape.ranks > shape.per_node;
  std::vector<Way> ways;
  if (limits.strategy && limits.offload) {
    const Way way{*limits.strategy, *limits.offload};
    if (CanBe(way, shape) && Allowed(way, limits)) ways.push_back(way);
    return ways;
  }
  const auto add = [&](Strategy strategy, Offload offload) {
    const Way way{strategy, offload};
    if (Allowed(way, limits)) ways.push_back(way);
  };
  if (!several) add(Strategy::kSingle, Offload::kNone);
  const bool asked = limits.strategy && IsSharded(*limits.strategy);
  if (several || limits.strategy == Strategy::kDdp) add(Strategy::kDdp, Offload::kNone);
  if (several || asked) {
    for (const Strategy strategy : {Strategy::kZero1, Strategy::kZero2, Strategy::kFsdpGradOp,
                                    Strategy::kZero3, Strategy::kFsdp}) {
      add(strategy, Offload::kNone);
    }
    if (nodes || limits.strategy == Strategy::kFsdpHybrid) {
      add(Strategy::kFsdpHybrid, Offload::kNone);
    }
    add(Strategy::kZero1, Offload::kOptimizer);
  }
  add(Strategy::kZero2, Offload::kOptimizer);
  add(Strategy::kZero3, Offload::kOptimizer);
  add(Strategy::kZero3, Offload::kAll);
  if (several || asked) add(Strategy::kFsdp, Offload::kAll);
  return ways;
}

// Micro-batches that divide `share`, ascending.
std::vector<std::int64_t> MicroBatchesOf(std::int64_t share) {
  std::vector<std::int64_t> divisors;
  const std::int64_t last = std::min(share, kLargestMicro);
  for (std::int64_t d = 1; d <= last; ++d)
    if (share % d == 0) divisors.push_back(d);
  if (divisors.size() <= kEnoughDivisors) return divisors;
  std::vector<std::int64_t> tried;
  for (const std::int64_t d : divisors) {
    if (tried.empty() || static_cast<double>(d) >= kWorthTrying * static_cast<double>(tried.back()))
      tried.push_back(d);
  }
  return tried;
}

Result<std::vector<std::pair<std::int64_t, std::int64_t>>> SplitsOf(const OptionLimits& limits,
                                                                    int ranks) {
  std::vector<std::pair<std::int64_t, std::int64_t>> splits;
  auto known = SplitBatch(limits.batch, ranks);
  if (!known) {
    Error error = known.error();
    const auto global = limits.batch.global;
    if (global && *global >= 1 && *global % ranks != 0 && !limits.batch.micro) {
      std::int64_t fewer = std::min<std::int64_t>(ranks, *global);
      while (*global % fewer != 0) --fewer;
      error.hint +=
          ", or start " + std::to_string(fewer) + (fewer == 1 ? " process" : " processes");
    }
    return Unexpected(std::move(error));
  }
  const BatchSpec& batch = limits.batch;
  if (batch.micro || (batch.global && batch.accumulate)) {
    splits.emplace_back(*known->split.micro, known->split.accumulate.value_or(1));
  } else if (batch.global) {
    const std::int64_t share = *batch.global / ranks;
    if (limits.can_accumulate) {
      for (const std::int64_t micro : MicroBatchesOf(share))
        splits.emplace_back(micro, share / micro);
    } else {
      splits.emplace_back(share, 1);
    }
  } else {
    for (std::int64_t micro = 1; micro <= kLargestFreeMicro; micro *= 2)
      splits.emplace_back(micro, batch.accumulate.value_or(1));
  }
  if (!limits.can_accumulate) {
    std::erase_if(splits, [](const auto& split) { return split.second > 1; });
    if (splits.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "the optimizer steps within the backward pass, which forbids accumulation",
                  "leave batch.accumulate out, or take another optimizer");
    }
  }
  return splits;
}

}  // namespace

Result<std::vector<PlanOption>> OptionsOf(const OptionLimits& limits, const RankShape& shape) {
  if (shape.ranks < 1 || shape.per_node < 1) {
    return Fail(ErrorCode::kInvalidArgument, "a run of no processes");
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto splits, SplitsOf(limits, shape.ranks));
  const std::vector<Way> ways = WaysOf(limits, shape);
  if (ways.empty()) {
    const std::string name(limits.strategy ? ToString(*limits.strategy) : "auto");
    return Fail(ErrorCode::kInvalidArgument,
                "strategy: " + name + " does not go with these processes, offload and trainer",
                "leave strategy or offload out");
  }
  std::vector<Checkpointing> recomputing = {Checkpointing::kNone};
  if (limits.checkpointing) {
    recomputing = {*limits.checkpointing};
  } else if (limits.can_checkpoint) {
    recomputing.push_back(Checkpointing::kFull);
  }
  std::vector<PlanOption> options;
  options.reserve(ways.size() * recomputing.size() * splits.size());
  for (const Way& way : ways)
    for (const Checkpointing checkpointing : recomputing)
      for (const auto& [micro, accumulate] : splits)
        options.push_back({way.strategy, way.offload, checkpointing, micro, accumulate});
  return options;
}

bool SameWay(const PlanOption& a, const PlanOption& b) {
  return a.strategy == b.strategy && a.offload == b.offload && a.checkpointing == b.checkpointing;
}

int ComplexityOf(const PlanOption& option) {
  int strategy = 0;
  switch (option.strategy) {
    case Strategy::kAuto:
    case Strategy::kSingle:
      strategy = 0;
      break;
    case Strategy::kDdp:
      strategy = 1;
      break;
    case Strategy::kZero1:
      strategy = 2;
      break;
    case Strategy::kZero2:
      strategy = 3;
      break;
    case Strategy::kFsdpGradOp:
      strategy = 4;
      break;
    case Strategy::kZero3:
      strategy = 5;
      break;
    case Strategy::kFsdp:
      strategy = 6;
      break;
    case Strategy::kFsdpHybrid:
      strategy = 7;
      break;
  }
  const int offload =
      option.offload == Offload::kAll ? 2 : (option.offload == Offload::kOptimizer ? 1 : 0);
  return (offload * 8 + strategy) * 2 + (option.checkpointing == Checkpointing::kNone ? 0 : 1);
}

}  // namespace launch
