#include "agent/probes/network_probe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/agent/probes/temporary_tree.h"

namespace launch::agent {
namespace {

NetworkAddress At(const std::string& interface, const std::string& address,
                  std::optional<int> mbit = {}) {
  return {.interface = interface, .address = address, .mbit = mbit};
}

std::vector<std::string> Sorted(std::vector<NetworkAddress> addresses,
                                const std::vector<std::string>& hardware) {
  SortAddresses(addresses, hardware);
  std::vector<std::string> texts;
  for (const NetworkAddress& address : addresses) texts.push_back(address.address);
  return texts;
}

TEST(NetworkProbe, PutsTheFastestHardwareFirstAndLoopbackLast) {
  EXPECT_EQ(Sorted({At("lo", "127.0.0.1"), At("docker0", "172.17.0.1", 10000),
                    At("eth1", "10.0.1.5", 1000), At("eth0", "10.0.0.5", 1000),
                    At("ib0", "10.1.0.5", 400000), At("wlan0", "10.9.0.5"), At("lo", "::1")},
                   {"eth0", "eth1", "ib0", "wlan0"}),
            (std::vector<std::string>{"10.1.0.5", "10.0.0.5", "10.0.1.5", "10.9.0.5", "172.17.0.1",
                                      "127.0.0.1", "::1"}));
}

TEST(NetworkProbe, PutsIpv4BeforeIpv6OfTheSameInterface) {
  EXPECT_EQ(Sorted({At("eth0", "2001:db8::5"), At("eth0", "10.0.0.5")}, {"eth0"}),
            (std::vector<std::string>{"10.0.0.5", "2001:db8::5"}));
}

TEST(NetworkProbe, FollowsBondsAndVlansDownToTheirHardware) {
  const TemporaryTree sys;
  sys.Directory("class/net/eth0/device");
  sys.Directory("class/net/bond0/lower_eth0");
  sys.Directory("class/net/bond0.7/lower_bond0");
  sys.Directory("class/net/docker0/lower_veth12");
  sys.Directory("class/net/veth12");
  EXPECT_TRUE(StandsOnHardware(sys.root(), "bond0.7"));
  EXPECT_FALSE(StandsOnHardware(sys.root(), "docker0"));
}

TEST(NetworkProbe, TellsTheRealAddressesWithLoopbackLastAndNoLinkLocal) {
  const std::vector<NetworkAddress> addresses = ProbeNetwork("/sys");
  ASSERT_FALSE(addresses.empty());
  EXPECT_TRUE(std::any_of(addresses.begin(), addresses.end(), [](const NetworkAddress& address) {
    return address.interface == "lo" && address.address == "127.0.0.1";
  }));
  bool loopback_began = false;
  for (const NetworkAddress& address : addresses) {
    EXPECT_FALSE(address.address.starts_with("fe80:")) << address.address;
    EXPECT_FALSE(address.address.starts_with("169.254.")) << address.address;
    EXPECT_FALSE(loopback_began && address.interface != "lo") << address.address;
    loopback_began = loopback_began || address.interface == "lo";
    EXPECT_TRUE(address.mtu.has_value()) << address.interface;
  }
}

TEST(NetworkProbe, SeesRdmaOfTheDeviceAndOfRoutableEthernet) {
  const TemporaryTree sys;
  sys.Directory("class/net/lo/device/infiniband");
  const std::vector<NetworkAddress> direct = ProbeNetwork(sys.root());
  const TemporaryTree other;
  other.Write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "lo\n");
  const std::vector<NetworkAddress> routed = ProbeNetwork(other.root());
  for (const auto& list : {direct, routed})
    for (const NetworkAddress& address : list)
      EXPECT_EQ(address.rdma, address.interface == "lo") << address.interface;
}

TEST(NetworkProbe, NamesRdmaPortsThatHaveNoAddress) {
  const TemporaryTree sys;
  sys.Write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  sys.Write("class/infiniband/mlx5_1/ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
  sys.Write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  sys.Write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  sys.Write("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  sys.Write("class/infiniband/mlx5_0/device/numa_node", "1\n");
  sys.Directory("class/infiniband/mlx5_0/device/net/ib0");
  sys.Write("class/infiniband/mlx5_1/device/numa_node", "-1\n");
  sys.Write("class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n");
  sys.Write("class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "eth3\n");
  const std::vector<RdmaPort> ports = ProbeRdma(sys.root());
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0], (RdmaPort{"mlx5_0", 1, "InfiniBand", "ACTIVE", 400'000, "ib0", 1}));
  EXPECT_EQ(ports[1], (RdmaPort{"mlx5_1", 1, "Ethernet", "DOWN", 2'500, "eth3", std::nullopt}));
  EXPECT_TRUE(ProbeRdma(TemporaryTree().root()).empty());
}

}  // namespace
}  // namespace launch::agent
