// What to do against a finding: ways in the order to try them, one a line, and the commands of the
// first one. Versions and places come from preflight/remedy_data.h.
#pragma once

#include <string>
#include <vector>

#include "common/inventory.h"

namespace launch {

struct RemedyText {
  std::string text;
  std::vector<std::string> fix;  // shell lines; empty when no command can do it
};

// Ways to a torch that can use the GPUs of this node: wheel, container, build from source, CPU.
RemedyText CudaTorch(const NodeInventory& node, const RuntimeFacts& runtime);
// The remedy for a torch whose CUDA is newer than the driver's: first an older build, then a newer
// driver.
RemedyText OlderCudaTorch(const NodeInventory& node, const RuntimeFacts& runtime,
                          CudaVersion wanted);
// A toolkit of the version that torch was built with.
RemedyText MatchingToolkit(CudaVersion torch_cuda);
// Room in the agent's state_dir, where copies of workdir and logs lie.
RemedyText RoomForState(const std::string& node);

// The command for one release of a package; torch's "2.13.0+cu126" comes from its own channel.
std::string InstallRelease(const RuntimeFacts& runtime, const std::string& package,
                           const std::string& version);

}  // namespace launch
