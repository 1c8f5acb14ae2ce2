// What to type against a finding. The one file that names a framework's wheel index.
#pragma once

#include <string>

#include "common/inventory.h"

namespace launch {

// For a torch without CUDA on a GPU node: the channel that the node's driver can run.
std::string InstallCudaTorch(const NodeInventory& node, const std::string& interpreter);

// For a torch whose CUDA is newer than the driver's.
std::string InstallOlderCudaTorch(const NodeInventory& node, const std::string& interpreter);

}  // namespace launch
