#include "agent/runner/port_holder.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace launch::agent {
namespace {

// Dual stack where there is IPv6, else IPv4 only.
UniqueFd BindPort(int port) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int bound = -1;
  if (fd) {
    const int off = 0;
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
    if (bound != 0 && errno == EADDRINUSE) return UniqueFd();
  }
  if (bound != 0) {
    fd.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return fd;
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) {
      return UniqueFd();
    }
  }
  // Only after the bind: set before it, two holders could share one port.
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return UniqueFd();
  return fd;
}

}  // namespace

Result<HeldPorts> HoldBlock(const PortBlock& block) {
  HeldPorts held{block, {}};
  for (int port = block.first; port < block.first + block.count; ++port) {
    UniqueFd fd = BindPort(port);
    if (!fd) return Fail(ErrorCode::kConflict, "port " + std::to_string(port) + " is in use");
    held.sockets.push_back(std::move(fd));
  }
  return held;
}

Result<HeldPorts> HoldPorts(int first, int last, int start_at) {
  const int blocks = (last - first + 1) / kPortsPerBlock;
  const int begin = blocks > 0 ? std::max(0, (start_at - first) / kPortsPerBlock) : 0;
  for (int i = 0; i < blocks; ++i) {
    const int block = (begin + i) % blocks;
    auto held = HoldBlock({first + block * kPortsPerBlock, kPortsPerBlock});
    if (held) return held;
  }
  return Fail(ErrorCode::kUnavailable,
              "no free block of " + std::to_string(kPortsPerBlock) + " ports in " +
                  std::to_string(first) + "-" + std::to_string(last),
              "widen `ports` in agent.yaml, outside net.ipv4.ip_local_port_range");
}

}  // namespace launch::agent
