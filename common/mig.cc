#include "common/mig.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/text.h"

namespace launch {
namespace {

constexpr std::string_view kUuidPrefix = "MIG-";

// Without "mig-", "mig " or "mig_" in front.
std::string ProfileIn(std::string_view text) {
  std::string word = Lower(text);
  const bool named = word.starts_with("mig") && word.size() > 4 &&
                     (word[3] == '-' || word[3] == ' ' || word[3] == '_');
  return named ? word.substr(4) : word;
}

// Takes digits and then `unit` from the front of `text`.
bool Take(std::string_view& text, std::string_view unit) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || !text.substr(digits).starts_with(unit)) return false;
  text.remove_prefix(digits + unit.size());
  return true;
}

}  // namespace

bool IsMigProfile(std::string_view text) {
  const std::string word = ProfileIn(text);
  std::string_view rest = word;
  (void)Take(rest, "c.");  // a compute instance within the slice
  return Take(rest, "g.") && Take(rest, "gb") && (rest.empty() || rest.front() == '+');
}

bool IsMigSlice(const GpuDevice& gpu) { return gpu.uuid.value.starts_with(kUuidPrefix); }

std::optional<GpuPlace> FindGpu(const NodeInventory& node, const GpuUuid& uuid) {
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    const GpuDevice& device = node.gpus[i];
    if (device.uuid == uuid) return GpuPlace{i, false};
    if (std::ranges::find(device.mig, uuid, &MigSlice::uuid) != device.mig.end())
      return GpuPlace{i, true};
  }
  return std::nullopt;
}

int GpuNumber(const NodeInventory& node, std::size_t index) {
  int number = 0;
  for (std::size_t i = 1; i <= index && i < node.gpus.size(); ++i) {
    const GpuDevice& gpu = node.gpus[i];
    const bool same_gpu =
        IsMigSlice(gpu) && IsMigSlice(node.gpus[i - 1]) && gpu.pci == node.gpus[i - 1].pci;
    if (!same_gpu) ++number;
  }
  return number;
}

std::string NvidiaSmiId(const NodeInventory& node, std::size_t index) {
  if (!node.gpu_subset || index >= node.gpus.size()) return std::to_string(GpuNumber(node, index));
  const GpuDevice& gpu = node.gpus[index];
  return gpu.pci.empty() ? gpu.uuid.value : gpu.pci;
}

std::string GpuLabel(const NodeInventory& node, std::size_t index) {
  const std::string gpu = "GPU " + std::to_string(GpuNumber(node, index));
  return index < node.gpus.size() && IsMigSlice(node.gpus[index]) ? "a slice of " + gpu : gpu;
}

void ListSlicesAsDevices(NodeInventory& node) {
  std::vector<GpuDevice> devices;
  for (GpuDevice& gpu : node.gpus) {
    if (gpu.mig.empty()) {
      devices.push_back(std::move(gpu));
      continue;
    }
    const std::vector<MigSlice> slices = std::exchange(gpu.mig, {});
    if (gpu.pci.empty()) gpu.pci = gpu.uuid.value;  // tells its slices from those of the next GPU
    for (const MigSlice& slice : slices) {
      GpuDevice device = gpu;
      device.uuid = slice.uuid;
      device.model = gpu.model + " MIG " + slice.profile;
      device.type = slice.profile;
      device.memory_bytes = slice.memory_bytes;
      device.reserved_bytes.reset();
      device.links.clear();  // nothing passes between slices but through the host
      devices.push_back(std::move(device));
    }
  }
  node.gpus = std::move(devices);
}

bool NamesSlice(std::string_view wanted, const GpuDevice& slice) {
  return ProfileIn(wanted) == Lower(slice.type) || Lower(wanted) == Lower(slice.model);
}

}  // namespace launch
