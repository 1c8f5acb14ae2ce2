// Can this node open a connection to rank 0's address, and over which interface?
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/launch.h"

namespace launch::agent {

// Tries one numeric address. A connection or a refusal means reachable (the port is held, nobody
// listens yet); silence until the deadline, no route, or a firewall's answer means not.
Reachability ProbeAddress(const std::string& address, int port, Millis deadline,
                          const std::atomic<bool>& cancel);

// Tries all addresses at once, so that dead ones cost one deadline and not one each; the answers
// are in the order given.
std::vector<Reachability> ProbeAddresses(const std::vector<std::string>& addresses, int port,
                                         Millis deadline, const std::atomic<bool>& cancel);

}  // namespace launch::agent
