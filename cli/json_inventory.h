// What nodes have, as the JSON of `launch nodes`: all that agents report of it.
#pragma once

#include <nlohmann/json.hpp>

#include "common/inventory.h"

namespace launch {

// Facts of the device itself; whether it is free is not among them.
nlohmann::ordered_json JsonOf(const GpuDevice& gpu);
nlohmann::ordered_json JsonOf(const RuntimeFacts& runtime);
nlohmann::ordered_json JsonOf(const NetworkAddress& address);
// What the node has besides GPUs, interpreters and addresses: host, limits, adapters, tools.
nlohmann::ordered_json JsonOfHost(const NodeInventory& node);

}  // namespace launch
