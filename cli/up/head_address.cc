#include "cli/up/head_address.h"

#include <netdb.h>

namespace launch::up {

Result<Families> MustResolve(const std::string& address) {
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.c_str(), nullptr, nullptr, &found);
  if (failed != 0)
    return Fail(ErrorCode::kUnavailable,
                "no address is known for " + address + ": " + ::gai_strerror(failed),
                "agents and this machine reach the controller by it: write address: with an IP "
                "address, or HostName into its Host block");
  Families families = Families::kOnlyV6;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    if (one->ai_family == AF_INET) families = Families::kV4;
  ::freeaddrinfo(found);
  return families;
}

std::string WithPort(const std::string& address, int port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

}  // namespace launch::up
