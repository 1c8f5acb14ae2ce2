// Whether one file of a checkpoint is whole; reads headers, never weights, never unpickles.
#pragma once

#include <cstdint>
#include <string>

namespace launch::agent {

// How much of all files one search may read: a directory may hold any number of large headers.
struct ReadBudget {
  std::uint64_t bytes = std::uint64_t{4} << 30;
};

// Empty = complete; else what is wrong with a torch.save file: end record, directory, sizes.
std::string WhyTorchIncomplete(const std::string& path, ReadBudget* budget = nullptr);

// Empty = complete; else what is wrong with a safetensors file: header and size.
std::string WhySafetensorsIncomplete(const std::string& path, ReadBudget* budget = nullptr);

}  // namespace launch::agent
