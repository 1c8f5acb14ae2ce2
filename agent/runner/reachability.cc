#include "agent/runner/reachability.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>

#include "common/unique_fd.h"

namespace launch::agent {
namespace {

constexpr int kSliceMs = 50;  // how soon a cancel is seen

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr,
                       &reinterpret_cast<const sockaddr_in*>(b)->sin_addr, sizeof(in_addr)) == 0;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

// The interface that owns the local end of a connection.
std::string InterfaceOf(int fd) {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) return {};
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (SameAddress(at->ifa_addr, reinterpret_cast<const sockaddr*>(&local))) return at->ifa_name;
  }
  return {};
}

// 127.0.0.2 and the like belong to the loopback interface without being listed.
bool IsLoopback(const sockaddr_storage& to) {
  if (to.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(to).sin_addr.s_addr) >> 24) == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(to).sin6_addr);
}

std::string LoopbackName() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if ((at->ifa_flags & IFF_LOOPBACK) != 0) return at->ifa_name;
  }
  return {};
}

Reachability Judge(Reachability result, int error_number, int fd, const sockaddr_storage& to) {
  result.interface = InterfaceOf(fd);
  if (result.interface.empty() && IsLoopback(to)) result.interface = LoopbackName();
  // Refused proves that the host answered: rank 0's port is held, but nobody listens yet.
  result.ok = error_number == 0 || error_number == ECONNREFUSED;
  if (!result.ok) result.why = std::strerror(error_number);
  return result;
}

}  // namespace

Reachability ProbeAddress(const std::string& address, int port, Millis deadline,
                          const std::atomic<bool>& cancel) {
  Reachability result{.address = address};
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
      code != 0) {
    result.why = ::gai_strerror(code);
    return result;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  sockaddr_storage to{};
  std::memcpy(&to, found->ai_addr, found->ai_addrlen);
  const UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    result.why = std::strerror(errno);
    return result;
  }
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0) {
    return Judge(std::move(result), 0, fd.get(), to);
  }
  if (errno != EINPROGRESS) return Judge(std::move(result), errno, fd.get(), to);
  // The route is known as soon as the connection is under way; a refusal forgets it.
  result.interface = InterfaceOf(fd.get());
  pollfd wait{fd.get(), POLLOUT, 0};
  for (auto left = deadline.count(); left > 0 && !cancel; left -= kSliceMs) {
    if (::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left, kSliceMs))) <= 0) continue;
    int error_number = 0;
    socklen_t size = sizeof error_number;
    (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &size);
    const std::string interface = result.interface;
    result = Judge(std::move(result), error_number, fd.get(), to);
    if (result.interface.empty()) result.interface = interface;
    return result;
  }
  result.why = cancel ? "cancelled"
                      : "no answer within " + std::to_string(deadline.count()) +
                            " ms (firewall, or no route)";
  return result;
}

std::vector<Reachability> ProbeAddresses(const std::vector<std::string>& addresses, int port,
                                         Millis deadline, const std::atomic<bool>& cancel) {
  std::vector<std::future<Reachability>> probes;
  for (const std::string& address : addresses) {
    const auto probe = [&address, port, deadline, &cancel] {
      return ProbeAddress(address, port, deadline, cancel);
    };
    try {
      probes.push_back(std::async(std::launch::async, probe));
    } catch (const std::system_error&) {  // at the limit of processes: one after the other
      probes.push_back(std::async(std::launch::deferred, probe));
    }
  }
  std::vector<Reachability> results;
  for (auto& probe : probes) results.push_back(probe.get());
  return results;
}

}  // namespace launch::agent
