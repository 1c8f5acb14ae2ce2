// Which parallel strategy a job runs with: what the user names, checked; otherwise single or DDP.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/job.h"

namespace launch {

struct StrategyChoice {
  Strategy strategy = Strategy::kSingle;
  Offload offload = Offload::kNone;
  std::string why;
};

// What can be said before nodes are known: offload that has no meaning, a plain trainer with ZeRO.
Result<void> CheckStrategy(const JobSpec& spec);

Result<StrategyChoice> ChooseStrategy(const JobSpec& spec, DeviceClass device, int world_size);

// A strategy as users write it: DeepSpeed's have one word for stage and offload.
struct StrategyWord {
  Strategy strategy = Strategy::kAuto;
  std::optional<Offload> offload;  // zero2-offload, zero3-offload
};
std::optional<StrategyWord> ParseStrategyWord(std::string_view text);

bool IsSharded(Strategy strategy);  // ZeRO and FSDP
bool IsFsdp(Strategy strategy);
int ZeroStage(Strategy strategy);  // 1-3; 0 for what is not ZeRO

// Can a run of that strategy move that much to the host? ZeRO moves optimizer states, its stage 3
// parameters too; FSDP moves all or nothing (torch's CPUOffload).
bool TakesOffload(Strategy strategy, Offload offload);

// How much of the states is divided among the ranks: 0 (nothing) to kMostSharding (weights too).
int ShardingOf(Strategy strategy);
constexpr int kMostSharding = 3;

}  // namespace launch
