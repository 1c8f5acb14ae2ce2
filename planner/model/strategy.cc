#include "planner/model/strategy.h"

namespace launch {

std::optional<StrategyWord> ParseStrategyWord(std::string_view text) {
  if (text == "zero2-offload") return StrategyWord{Strategy::kZero2, Offload::kOptimizer};
  if (text == "zero3-offload") return StrategyWord{Strategy::kZero3, Offload::kAll};
  const auto strategy = ParseStrategy(text);
  if (!strategy) return std::nullopt;
  return StrategyWord{*strategy, std::nullopt};
}

bool IsSharded(Strategy strategy) {
  return strategy != Strategy::kAuto && strategy != Strategy::kSingle && strategy != Strategy::kDdp;
}

bool IsFsdp(Strategy strategy) { return IsSharded(strategy) && ZeroStage(strategy) == 0; }

int ZeroStage(Strategy strategy) {
  switch (strategy) {
    case Strategy::kZero1:
      return 1;
    case Strategy::kZero2:
      return 2;
    case Strategy::kZero3:
      return 3;
    default:
      return 0;
  }
}

bool TakesOffload(Strategy strategy, Offload offload) {
  switch (offload) {
    case Offload::kAuto:
    case Offload::kNone:
      return true;
    case Offload::kOptimizer:
      return ZeroStage(strategy) > 0;
    case Offload::kAll:
      return ZeroStage(strategy) == 3 || IsFsdp(strategy);
  }
  return false;
}

Result<void> CheckStrategy(const JobSpec& spec) {
  const std::string name(ToString(spec.strategy));
  if (spec.trainer == Trainer::kPlain && IsSharded(spec.strategy)) {
    return Fail(ErrorCode::kInvalidArgument,
                "strategy: " + name + " with trainer: plain, which means single or DDP",
                "leave trainer out, or name the library that shards: hf, deepspeed, accelerate");
  }
  if (spec.offload != Offload::kOptimizer && spec.offload != Offload::kAll) return {};
  if (spec.strategy == Strategy::kAuto || TakesOffload(spec.strategy, spec.offload)) return {};
  const std::string offload(ToString(spec.offload));
  if (!IsSharded(spec.strategy)) {
    const bool all = spec.offload == Offload::kAll;
    return Fail(ErrorCode::kInvalidArgument,
                "offload: " + offload + " has no meaning with strategy: " + name,
                std::string("write strategy: ") + (all ? "zero3 or fsdp" : "zero2") +
                    ", or leave offload out");
  }
  if (IsFsdp(spec.strategy)) {
    return Fail(ErrorCode::kInvalidArgument,
                "offload: optimizer with strategy: " + name +
                    ", which moves parameters and optimizer states together or not at all",
                "write offload: all, or strategy: zero2");
  }
  return Fail(ErrorCode::kInvalidArgument,
              "offload: all moves parameters too, which " + name + " does not shard",
              "write offload: optimizer, or strategy: zero3");
}

Result<StrategyChoice> ChooseStrategy(const JobSpec& spec, DeviceClass device, int world_size) {
  LAUNCH_RETURN_IF_ERROR(CheckStrategy(spec));
  StrategyChoice choice;
  choice.offload = spec.offload == Offload::kAuto ? Offload::kNone : spec.offload;
  if (spec.strategy == Strategy::kAuto) {
    choice.strategy = world_size > 1 ? Strategy::kDdp : Strategy::kSingle;
    choice.why = world_size > 1
                     ? std::to_string(world_size) + " processes: each holds the whole model"
                     : "one process";
    return choice;
  }
  const std::string name(ToString(spec.strategy));
  if (device == DeviceClass::kMps && IsSharded(spec.strategy)) {
    return Fail(ErrorCode::kCannotFit,
                "strategy: " + name + " needs several devices, and an mps GPU is one device",
                "write strategy: single");
  }
  if (spec.strategy == Strategy::kSingle && world_size > 1) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "strategy: single means one process, but the job starts " + std::to_string(world_size),
        "write procs_per_node: 1 and nodes: 1, or strategy: ddp");
  }
  choice.strategy = spec.strategy;
  choice.why = "asked for";
  return choice;
}

int ShardingOf(Strategy strategy) {
  switch (strategy) {
    case Strategy::kAuto:
    case Strategy::kSingle:
    case Strategy::kDdp:
      return 0;
    case Strategy::kZero1:
      return 1;
    case Strategy::kZero2:
    case Strategy::kFsdpGradOp:
      return 2;
    case Strategy::kZero3:
    case Strategy::kFsdp:
    case Strategy::kFsdpHybrid:
      return kMostSharding;
  }
  return 0;
}

}  // namespace launch
