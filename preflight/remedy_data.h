// The versions and places of configs/remedies.yaml, which is compiled in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/inventory.h"

namespace launch {

struct WheelChannel {
  std::string name;  // "cu126"
  CudaVersion cuda;
  std::string until;  // first torch release that left the channel; empty = still there
  struct Build {
    std::string since;               // first torch release with wheels for this processor
    std::vector<std::string> archs;  // "sm_80", "compute_120"
  };
  std::map<Arch, Build> builds;
};

struct ContainerTag {
  std::string tag;
  CudaVersion cuda;
};

class RemedyData {
 public:
  static Result<RemedyData> Parse(std::string_view yaml, const std::string& file);
  static const RemedyData& BuiltIn();

  // First channel with device code for every CUDA GPU of the node that its driver can run; null
  // when there is none.
  const WheelChannel* ChannelFor(const NodeInventory& node) const;
  // The same without looking at the driver: what an update of the driver would allow.
  const WheelChannel* ChannelAfterUpdate(const NodeInventory& node) const;
  const WheelChannel* Channel(std::string_view name) const;
  // First release that has CUDA wheels for this processor, and its channel.
  const WheelChannel* FirstChannel(Arch arch) const;
  std::optional<int> DriverFor(int cuda_major) const;
  // Whether the node's driver runs programs of this CUDA; unknown drivers do.
  bool Runs(const NodeInventory& node, CudaVersion cuda) const;
  std::string ImageFor(const NodeInventory& node) const;  // with tag
  bool DeepspeedAccepts(CudaVersion toolkit) const;
  bool DeepspeedKnowsMajor(int major) const;
  std::string ToolkitCommand(CudaVersion version) const;

  const std::string& index() const { return index_; }
  const std::string& container_needs() const { return container_needs_; }
  int source_disk_gb() const { return source_disk_gb_; }

 private:
  const WheelChannel* Find(const NodeInventory& node, bool any_driver) const;

  std::string index_;
  std::vector<WheelChannel> channels_;
  std::map<int, int> drivers_;  // CUDA major -> oldest driver
  std::string image_;
  std::string container_needs_;
  std::vector<ContainerTag> tags_;  // newest first
  int source_disk_gb_ = 0;
  std::vector<CudaVersion> deepspeed_accepts_;
  std::string toolkit_install_;
};

// Compares "2.6.0" with "2.13.0+cpu" by numbers.
bool IsOlderRelease(std::string_view version, std::string_view than);

}  // namespace launch
