// Addresses by which other nodes may reach this one.
#pragma once

#include <string>
#include <vector>

#include "common/inventory.h"

namespace launch::agent {

// Interfaces that are up, without link-local addresses. Order: hardware before bridges and tunnels
// (docker0 has the same address on every machine), faster first, then name, IPv4 before IPv6;
// loopback ("lo") last.
std::vector<NetworkAddress> ProbeNetwork(const std::string& sys_root);

// Ports of InfiniBand and RoCE adapters, whether or not they have an address; by device and port.
std::vector<RdmaPort> ProbeRdma(const std::string& sys_root);

// The order above, for a list whose hardware interfaces are known.
void SortAddresses(std::vector<NetworkAddress>& addresses,
                   const std::vector<std::string>& hardware);

// True for hardware and for bonds, VLANs and bridges that stand on it.
bool StandsOnHardware(const std::string& sys_root, const std::string& interface);

}  // namespace launch::agent
