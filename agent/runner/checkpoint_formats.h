// What makes each format of checkpoint complete; reads headers, never weights, never unpickles.
//
//   torch      *.pt *.pth *.bin     zip with end record and central directory whose sizes agree
//   lightning  *.ckpt               as torch
//   hf         checkpoint-N/        trainer_state.json of step N; weights (and shards) complete
//   dcp        *.distcp             .metadata is there (written last), no file is empty
//   deepspeed  `latest`             the tag's model states and the optimizer states of every rank
//   accelerate checkpoint_N/        weights complete and random_states_R.pkl
//   marker     any directory        the file that the user named
#pragma once

#include <string>
#include <vector>

#include "common/launch.h"

namespace launch::agent {

// Every checkpoint directly below `directory`, and `directory` itself where it is one (DeepSpeed,
// DCP). Not in any order. A missing directory holds none.
std::vector<CheckpointFound> ReadCheckpoints(const std::string& directory,
                                             const std::string& marker);

// Empty = complete; else what is wrong with a torch.save file: end record, directory, sizes.
std::string WhyTorchIncomplete(const std::string& path);

// Empty = complete; else what is wrong with a safetensors file: header and size.
std::string WhySafetensorsIncomplete(const std::string& path);

}  // namespace launch::agent
