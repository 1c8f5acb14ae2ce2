// MIG: a GPU that its driver cuts into slices, each of which programs use like a GPU of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/inventory.h"

namespace launch {

// Whether `text` names a MIG profile: "1g.10gb", "1c.2g.20gb", "1g.10gb+me", also with "mig-" or
// "MIG " in front.
bool IsMigProfile(std::string_view text);

// Whether the device is a MIG slice, as ListSlicesAsDevices makes them.
bool IsMigSlice(const GpuDevice& gpu);

// The device of this UUID, or the one that it is a slice of.
struct GpuPlace {
  std::size_t index = 0;  // in NodeInventory::gpus
  bool slice = false;
};
std::optional<GpuPlace> FindGpu(const NodeInventory& node, const GpuUuid& uuid);

// The number that gpus[index], or the GPU that it is a slice of, has in `launch nodes` and in
// gpu_ids: that of nvidia-smi where the node has all of its machine's GPUs.
int GpuNumber(const NodeInventory& node, std::size_t index);

// What `nvidia-smi -i` takes for gpus[index]: on a node that has only a part of its machine's GPUs
// their numbers are not nvidia-smi's.
std::string NvidiaSmiId(const NodeInventory& node, std::size_t index);

// "GPU 3", "a slice of GPU 3".
std::string GpuLabel(const NodeInventory& node, std::size_t index);

// Each slice in place of its GPU, as a device with the slice's UUID and memory, the profile as its
// type and everything else as the GPU has it: it is offered, held, proved free and quarantined by
// itself. What is cut is never used as a whole. Says nothing of GPUs in MIG mode without slices.
void ListSlicesAsDevices(NodeInventory& node);

// Does a job that asks for `wanted` mean this slice? Slices are given to those only who name them:
// "1g.10gb", "mig-1g.10gb", or the name that the driver gives.
bool NamesSlice(std::string_view wanted, const GpuDevice& slice);

}  // namespace launch
