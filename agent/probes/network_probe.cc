#include "agent/probes/network_probe.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "agent/probes/small_files.h"
#include "common/file_system.h"
#include "common/units.h"

namespace launch::agent {
namespace {

bool LinkLocal(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 16) == 0xa9fe;  // 169.254.0.0/16
  }
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::optional<std::string> NumericAddress(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  } else {
    return std::nullopt;
  }
  if (::inet_ntop(address->sa_family, bytes, text, sizeof text) == nullptr) return std::nullopt;
  return text;
}

std::optional<int> PositiveNumber(const std::string& path) {
  const auto number = ParseInt(TrimmedFile(path));
  if (!number || *number <= 0 || *number > 100'000'000) return std::nullopt;
  return static_cast<int>(*number);
}

// InfiniBand and RoCE: the interface's device, or a port that names the interface.
bool HasRdma(const std::string& sys_root, const std::string& interface) {
  if (PathExists(sys_root + "/class/net/" + interface + "/device/infiniband")) return true;
  const std::string root = sys_root + "/class/infiniband";
  for (const std::string& device : ListNames(root))
    for (const std::string& port : ListNames(root + "/" + device + "/ports"))
      if (TrimmedFile(root + "/" + device + "/ports/" + port + "/gid_attrs/ndevs/0") == interface)
        return true;
  return false;
}

// "4: ACTIVE" -> "ACTIVE".
std::string AfterNumber(const std::string& text) {
  const auto at = text.find(": ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

// "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)" -> 400000, 2500.
std::optional<int> MbitOfRate(const std::string& rate) {
  const auto end = rate.find(" Gb/sec");
  if (end == std::string::npos) return std::nullopt;
  const auto gbit = ParseDouble(rate.substr(0, end));
  if (!gbit || !(*gbit > 0) || *gbit > 1e6) return std::nullopt;
  return static_cast<int>(*gbit * 1000);
}

RdmaPort ReadPort(const std::string& adapter, const std::string& device, int number) {
  const std::string directory = adapter + "/ports/" + std::to_string(number);
  RdmaPort port{.device = device, .port = number};
  port.layer = TrimmedFile(directory + "/link_layer");
  port.state = AfterNumber(TrimmedFile(directory + "/state"));
  port.mbit = MbitOfRate(TrimmedFile(directory + "/rate"));
  port.interface = TrimmedFile(directory + "/gid_attrs/ndevs/0");
  const std::vector<std::string> interfaces = ListNames(adapter + "/device/net");
  if (port.interface.empty() && interfaces.size() == 1) port.interface = interfaces[0];
  const auto numa = ParseInt(TrimmedFile(adapter + "/device/numa_node"));
  if (numa && *numa >= 0 && *numa <= 0xffff) port.numa = static_cast<int>(*numa);
  return port;
}

}  // namespace

std::vector<RdmaPort> ProbeRdma(const std::string& sys_root) {
  std::vector<RdmaPort> ports;
  const std::string root = sys_root + "/class/infiniband";
  for (const std::string& device : ListNames(root)) {
    for (const std::string& name : ListNames(root + "/" + device + "/ports")) {
      const auto number = ParseInt(name);
      if (!number || *number < 0 || *number > 255) continue;
      ports.push_back(ReadPort(root + "/" + device, device, static_cast<int>(*number)));
    }
  }
  std::sort(ports.begin(), ports.end(), [](const RdmaPort& a, const RdmaPort& b) {
    return std::tie(a.device, a.port) < std::tie(b.device, b.port);
  });
  return ports;
}

bool StandsOnHardware(const std::string& sys_root, const std::string& interface) {
  const std::string directory = sys_root + "/class/net/" + interface;
  if (PathExists(directory + "/device")) return true;
  for (const std::string& name : ListNames(directory))
    if (name.starts_with("lower_") && StandsOnHardware(sys_root, name.substr(6))) return true;
  return false;
}

void SortAddresses(std::vector<NetworkAddress>& addresses,
                   const std::vector<std::string>& hardware) {
  const auto place = [&](const NetworkAddress& a) {
    const bool real = std::find(hardware.begin(), hardware.end(), a.interface) != hardware.end();
    const bool v6 = a.address.find(':') != std::string::npos;
    return std::tuple(a.interface == "lo", !real, -a.mbit.value_or(0), a.interface, v6, a.address);
  };
  std::sort(addresses.begin(), addresses.end(),
            [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

std::vector<NetworkAddress> ProbeNetwork(const std::string& sys_root) {
  std::vector<NetworkAddress> addresses;
  std::vector<std::string> hardware;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    constexpr unsigned kReady = IFF_UP | IFF_RUNNING;
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & kReady) != kReady) continue;
    const std::optional<std::string> text = NumericAddress(entry->ifa_addr);
    if (!text || LinkLocal(entry->ifa_addr)) continue;
    const std::string name = entry->ifa_name;
    const std::string directory = sys_root + "/class/net/" + name;
    addresses.push_back({.interface = name,
                         .address = *text,
                         .mbit = PositiveNumber(directory + "/speed"),
                         .mtu = PositiveNumber(directory + "/mtu"),
                         .rdma = HasRdma(sys_root, name)});
    if (StandsOnHardware(sys_root, name)) hardware.push_back(name);
  }
  SortAddresses(addresses, hardware);
  return addresses;
}

}  // namespace launch::agent
