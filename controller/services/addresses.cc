#include "controller/services/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>

namespace launch::controller {

std::string HostPortText(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

std::string LocalAddress(const std::string& host, int port) {
  if (host == "::") return HostPortText("::1", port);
  return HostPortText(IsWildcard(host) ? "127.0.0.1" : host, port);
}

std::vector<std::string> DialableAddresses(const std::string& host, int port) {
  if (!IsWildcard(host)) return {HostPortText(host, port)};
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      const bool up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      if (!up || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
      std::array<char, INET_ADDRSTRLEN> text{};
      const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      if (::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) != nullptr) {
        addresses.push_back(HostPortText(text.data(), port));
      }
    }
    ::freeifaddrs(all);
  }
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) {
    addresses.push_back(HostPortText(name.data(), port));
  }
  return addresses;
}

}  // namespace launch::controller
