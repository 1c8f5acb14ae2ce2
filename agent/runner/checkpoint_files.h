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

// Empty = not seen to be cut short; else what is wrong with a shard of
// torch.distributed.checkpoint: one that begins as a file of torch.save ends as one.
std::string WhyDcpShardCutShort(const std::string& path, ReadBudget* budget = nullptr);

// Empty = the last byte is a pickle's; else what is wrong with the file.
std::string WhyPickleCutShort(const std::string& path, ReadBudget* budget = nullptr);

// Empty = complete; else what is wrong with a safetensors file: header and size.
std::string WhySafetensorsIncomplete(const std::string& path, ReadBudget* budget = nullptr);

}  // namespace launch::agent
