// The words of --what-if: what they change of the question that a plan answers.
#pragma once

#include <optional>
#include <string_view>

#include "common/error.h"
#include "planner/choose/choice.h"

namespace launch {

inline constexpr int kMaxRanks = 65'536;  // that are tried

// Applies a change such as "nodes=4,seq_len=8192" to `input`. Keys: nodes, gpus (per node), gpu (a
// class of configs/gpus.yaml), seq_len, batch.global, batch.micro, batch.accumulate, strategy,
// offload, activation_checkpointing, optimizer, lora.rank; those of the job file's model block with
// or without "model.". Batch, and strategy with offload, count together, whatever their order.
// kInvalidArgument names an unknown key (with the nearest) or a bad value.
Result<void> ApplyChange(std::string_view text, ChoiceInput& input);

void SetRanks(ChoiceInput& input, int ranks, int per_node);
// GPUs of another class, of so many usable bytes. The network stays that of the cluster; precision
// and formats follow the capability unless the job fixes them.
void SetDevice(ChoiceInput& input, const Machine& machine, std::optional<ComputeCapability> cc,
               double bytes);

}  // namespace launch
