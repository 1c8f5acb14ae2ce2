// Checkpoints whose parts are in directories below that of the step.
//
//   Megatron-LM  iter_N/mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt, one for each rank of the model;
//                latest_checkpointed_iteration.txt beside iter_N is written last, also where iter_N
//                is one directory of torch.distributed.checkpoint
//   NeMo 2       NAME/weights/ of torch.distributed.checkpoint; the file NAME-unfinished is beside
//                it until the save is done
//   OLMo-core    stepN/model_and_optim/, stepN/train/rankR.pt; stepN/.metadata.json is written last
//   others       directories of torch.distributed.checkpoint, as model/ and optim/
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/runner/checkpoint_search.h"
#include "common/launch.h"

namespace launch::agent {

// Whether torch.distributed.checkpoint wrote into `directory` itself.
bool HoldsDcp(CheckpointSearch& search, const std::filesystem::path& directory);
// Whether torch.distributed.checkpoint wrote into directories below `directory`. `step`: the one in
// the name of `directory`.
bool HoldsDcpBelow(CheckpointSearch& search, const std::filesystem::path& directory,
                   std::int64_t step);
// Whether Megatron-LM wrote a file for each rank of the model below `directory`.
bool HoldsMegatron(CheckpointSearch& search, const std::filesystem::path& directory);

// Empty = complete; else what is wrong.
std::string WhyDcpFilesIncomplete(CheckpointSearch& search, const std::filesystem::path& directory,
                                  int world);
std::string WhyDcpBelowIncomplete(CheckpointSearch& search, const std::filesystem::path& directory,
                                  int world);
std::string WhyMegatronIncomplete(CheckpointSearch& search, const std::filesystem::path& directory,
                                  std::int64_t step);

// What NeMo says of a checkpoint that it has not written to its end, or has begun to remove.
std::string WhyMarkedUnfinished(const std::filesystem::path& checkpoint);

// Marks as incomplete each checkpoint that lacks a part which another one of the same format has:
// it was cut off. One of more ranks of the model than the job has ranks is no measure for others,
// for another job made it.
void AskForPartsOfOthers(const CheckpointSearch& search, int world,
                         std::vector<CheckpointFound>& all);

}  // namespace launch::agent
