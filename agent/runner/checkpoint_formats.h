// What makes each format of checkpoint complete (table of rulings); reads headers, never weights.
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
