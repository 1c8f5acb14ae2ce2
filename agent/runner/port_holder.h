// Holds a block of TCP ports without listening, so that only a server that allows address reuse
// (c10d, libuv, gRPC) can bind one of them.
#pragma once

#include <vector>

#include "common/error.h"
#include "common/launch.h"
#include "common/unique_fd.h"

namespace launch::agent {

struct HeldPorts {
  PortBlock block;
  std::vector<UniqueFd> sockets;
};

inline constexpr int kPortsPerBlock = 4;

// First block of consecutive ports in [first, last] that can be bound, tried from `start_at` on, so
// that new attempts get new blocks. UNAVAILABLE when every block is taken.
Result<HeldPorts> HoldPorts(int first, int last, int start_at);

// Holds the same ports again after a restart of the agent. CONFLICT when somebody took one
// meanwhile.
Result<HeldPorts> HoldBlock(const PortBlock& block);

}  // namespace launch::agent
