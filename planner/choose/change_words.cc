#include "planner/choose/change_words.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/gpu_catalog.h"
#include "common/text.h"
#include "common/units.h"
#include "planner/choose/precision.h"
#include "planner/model/adapters.h"
#include "planner/model/optimizer_names.h"
#include "planner/model/strategy.h"

namespace launch {
namespace {

Unexpected BadChange(const std::string& text, const std::string& hint) {
  return Fail(ErrorCode::kInvalidArgument, "--what-if " + text, hint);
}

Result<std::int64_t> Count(const std::string& key, const std::string& value, std::int64_t most) {
  const auto number = ParseInt(value);
  if (!number || *number < 1 || *number > most) {
    return BadChange(key + "=" + value + " is not a whole number from 1 to " + std::to_string(most),
                     "write " + key + "=N");
  }
  return *number;
}

const std::vector<std::string>& KnownKeys() {
  static const std::vector<std::string> keys = {"nodes",
                                                "gpus",
                                                "gpu",
                                                "seq_len",
                                                "batch.global",
                                                "batch.micro",
                                                "batch.accumulate",
                                                "strategy",
                                                "offload",
                                                "activation_checkpointing",
                                                "optimizer",
                                                "lora.rank"};
  return keys;
}

// What one question says of things that only mean something together.
struct AskedTogether {
  BatchSpec batch;
  std::optional<Offload> by_strategy;  // zero2-offload
  std::optional<Offload> offload;
};

Result<void> ApplyStrategy(const std::string& value, ChoiceInput& input, AskedTogether& said) {
  const std::optional<StrategyWord> word = ParseStrategyWord(value);
  if (!word) return BadChange("strategy=" + value, "write a strategy of the job file");
  input.limits.strategy =
      word->strategy == Strategy::kAuto ? std::nullopt : std::optional(word->strategy);
  said.by_strategy = word->offload;
  return {};
}

Result<void> ApplyGpu(const std::string& value, ChoiceInput& input) {
  const GpuType* type = GpuCatalog::BuiltIn().Find(value, std::nullopt);
  if (type == nullptr || !type->memory_gib) {
    const std::string near = NearestName(value, GpuCatalog::BuiltIn().Names());
    return BadChange("gpu=" + value + ": no such class in the data sheet",
                     near.empty() ? "see configs/gpus.yaml" : "write gpu=" + near);
  }
  Machine machine;
  machine.gpu = GpuCatalog::VariantOf(*type, value);
  SetDevice(input, machine, type->cc, *type->memory_gib * kGiBytes);
  return {};
}

void SetFormat(ChoiceInput& input) {
  input.setup.format =
      FormatOf(input.time.precision, input.pure_16_bit || input.setup.lora_rank > 0);
}

Result<void> ApplyOne(const std::string& key, const std::string& value, ChoiceInput& input,
                      AskedTogether& said) {
  const auto count = [&](std::int64_t most) { return Count(key, value, most); };
  const int per_node = std::max(1, input.shape.per_node);
  const int nodes =
      std::max(1, input.shape.ranks / std::max(1, std::min(per_node, input.shape.ranks)));
  if (key == "nodes") {
    LAUNCH_ASSIGN_OR_RETURN(const auto number, count(kMaxRanks / per_node));
    SetRanks(input, static_cast<int>(number) * per_node, per_node);
  } else if (key == "gpus") {
    LAUNCH_ASSIGN_OR_RETURN(const auto number, count(kMaxRanks / nodes));
    SetRanks(input, static_cast<int>(number) * nodes, static_cast<int>(number));
  } else if (key == "gpu") {
    return ApplyGpu(value, input);
  } else if (key == "seq_len") {
    LAUNCH_ASSIGN_OR_RETURN(input.setup.seq, count(kMaxLength));
  } else if (key == "batch.global") {
    LAUNCH_ASSIGN_OR_RETURN(said.batch.global, count(kMaxParams));
  } else if (key == "batch.micro") {
    LAUNCH_ASSIGN_OR_RETURN(said.batch.micro, count(kMaxParams));
  } else if (key == "batch.accumulate") {
    LAUNCH_ASSIGN_OR_RETURN(said.batch.accumulate, count(kMaxParams));
  } else if (key == "strategy") {
    return ApplyStrategy(value, input, said);
  } else if (key == "offload") {
    said.offload = ParseOffload(value);
    if (!said.offload) return BadChange("offload=" + value, "write none, optimizer or all");
  } else if (key == "activation_checkpointing") {
    if (value != "none" && value != "selective" && value != "full") {
      return BadChange(key + "=" + value, "write none, selective or full");
    }
    input.limits.checkpointing = value == "none"   ? Checkpointing::kNone
                                 : value == "full" ? Checkpointing::kFull
                                                   : Checkpointing::kSelectiveOp;
  } else if (key == "optimizer") {
    if (!NamesOptimizer(value)) return UnknownOptimizer("--what-if optimizer=", value);
    input.setup.optimizer = OptimizerOf(value);
    input.limits.can_accumulate = !input.setup.optimizer.in_backward;
  } else if (key == "lora.rank") {
    LAUNCH_ASSIGN_OR_RETURN(input.setup.lora_rank, count(kMaxAdapterRank));
    SetFormat(input);
  } else {
    const std::string near = NearestName(key, KnownKeys());
    return BadChange(
        key + ": not something that can be changed",
        near.empty() ? "these can: " + Joined(KnownKeys(), ", ") : "write " + near + "=" + value);
  }
  return {};
}

// Two of the three fix the third: what the question does not name gives way, accumulation first.
void ApplyBatch(const BatchSpec& said, BatchSpec& batch) {
  if (said.global) batch.global = said.global;
  if (said.micro) batch.micro = said.micro;
  if (said.accumulate) batch.accumulate = said.accumulate;
  if (!batch.global || !batch.micro || !batch.accumulate) return;
  if (said.global && said.micro && said.accumulate) return;
  if (said.micro && said.accumulate) {
    batch.global.reset();
  } else if (said.accumulate) {
    batch.micro.reset();
  } else if (said.global || said.micro) {
    batch.accumulate.reset();
  }
}

Result<void> ApplyOffload(const AskedTogether& said, OptionLimits& limits) {
  const bool open = !said.offload || *said.offload == Offload::kAuto;
  if (said.by_strategy && !open && *said.offload == Offload::kNone) {
    return BadChange("offload=none contradicts the offload of the strategy",
                     "leave one of the two out");
  }
  if (said.by_strategy && open) {
    limits.offload = said.by_strategy;
  } else if (said.offload) {
    limits.offload = open ? std::nullopt : said.offload;
  }
  return {};
}

}  // namespace

Result<void> ApplyChange(std::string_view text, ChoiceInput& input) {
  constexpr std::string_view kBlock = "model.";
  AskedTogether said;
  if (text.empty()) return BadChange("\"\" asks nothing", "write e.g. nodes=4,seq_len=8192");
  for (const std::string_view part : Split(text, ',')) {
    const std::string one(part);
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == one.size()) {
      return BadChange(one + " is not KEY=VALUE", "write e.g. nodes=4,seq_len=8192");
    }
    std::string key = one.substr(0, equals);
    if (key.size() > kBlock.size() && key.starts_with(kBlock)) key.erase(0, kBlock.size());
    LAUNCH_RETURN_IF_ERROR(ApplyOne(key, one.substr(equals + 1), input, said));
  }
  ApplyBatch(said.batch, input.limits.batch);
  return ApplyOffload(said, input.limits);
}

void SetRanks(ChoiceInput& input, int ranks, int per_node) {
  input.shape = {ranks, per_node};
  input.machine.gpus_per_node = per_node;
}

void SetDevice(ChoiceInput& input, const Machine& machine, std::optional<ComputeCapability> cc,
               double bytes) {
  const bool nvlink = machine.gpu.link_gbps.value_or(0) > 0;
  const auto network = input.machine.node_network_gbps;
  const int per_node = input.machine.gpus_per_node;
  input.machine = machine;
  input.machine.nvlink = nvlink;
  input.machine.node_network_gbps = network;
  input.machine.gpus_per_node = per_node;
  input.gpu_bytes = bytes;
  input.capability = cc;
  input.setup.volta_context = LoadsKernelsAtOnce(cc);
  if (!cc || !input.precision_is_open) return;
  input.time.precision = SixteenBitsOf(*cc);
  SetFormat(input);
}

}  // namespace launch
