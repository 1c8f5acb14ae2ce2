// Whether one file of a checkpoint is whole; reads headers, never weights, never unpickles.
#pragma once

#include <string>

namespace launch::agent {

// Empty = complete; else what is wrong with a torch.save file: end record, directory, sizes.
std::string WhyTorchIncomplete(const std::string& path);

// Empty = complete; else what is wrong with a safetensors file: header and size.
std::string WhySafetensorsIncomplete(const std::string& path);

}  // namespace launch::agent
