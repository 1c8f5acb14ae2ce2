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
  std::vector<std::string> of_six;  // behind those of version 4
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      const bool up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      if (!up || one->ifa_addr == nullptr) continue;
      std::array<char, INET6_ADDRSTRLEN> text{};
      if (one->ifa_addr->sa_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
        if (::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size()) != nullptr) {
          addresses.push_back(HostPortText(text.data(), port));
        }
      } else if (one->ifa_addr->sa_family == AF_INET6 && host == "::") {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
        // One of a link means nothing on another host.
        if (!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) &&
            ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size()) != nullptr) {
          of_six.push_back(HostPortText(text.data(), port));
        }
      }
    }
    ::freeifaddrs(all);
  }
  addresses.insert(addresses.end(), of_six.begin(), of_six.end());
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) {
    addresses.push_back(HostPortText(name.data(), port));
  }
  return addresses;
}

}  // namespace launch::controller
