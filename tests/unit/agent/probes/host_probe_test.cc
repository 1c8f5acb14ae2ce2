#include "agent/probes/host_probe.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/probes/cgroup_limits.h"
#include "common/units.h"
#include "tests/unit/agent/probes/temporary_tree.h"

namespace launch::agent {
namespace {

class HostProbeTest : public ::testing::Test {
 protected:
  HostProbeTest() {
    ConfigureHwloc();
    tree.Write("proc/meminfo",
               "MemTotal:       502000000 kB\nMemFree:        1 kB\n"
               "MemAvailable:   400000000 kB\n");
    tree.Write("proc/loadavg", "3.25 2.00 1.00 1/200 4711\n");
    roots = {tree.Path("proc"), tree.Path("sys")};
  }
  TemporaryTree tree;
  HostRoots roots;
};

TEST_F(HostProbeTest, TellsThisMachineAsTheKernelDoes) {
  const HostFacts host = ProbeHost({}, CoherentMode::kNone);
  utsname system{};
  ::uname(&system);
  EXPECT_EQ(ToString(host.arch), system.machine);
  EXPECT_EQ(host.kernel, system.release);
  EXPECT_TRUE(host.glibc.starts_with("2."));
  EXPECT_EQ(host.page_size, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_GE(host.cores, 1);
  EXPECT_LE(host.cores, ::sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_GE(host.threads, host.cores);
  EXPECT_GT(host.memory_bytes, 100 * kMiB);
  EXPECT_FALSE(host.numa.empty());
}

TEST_F(HostProbeTest, ReadsMemoryAndLoadFromTheGivenProc) {
  EXPECT_EQ(ProbeHost(roots, CoherentMode::kNone).memory_bytes, 502000000 * kKiB);
  const HostSample sample = SampleHost(roots, CoherentMode::kNone);
  EXPECT_EQ(sample.memory_available_bytes, 400000000 * kKiB);
  EXPECT_EQ(sample.load1, 3.25);
}

// The shape of a GH200: 72 cores with their RAM, and GPU memory as a node without cores.
constexpr const char* kGraceHopper = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3"
    nodeset="0x3" complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">
    <object type="NUMANode" os_index="1" cpuset="0x0" complete_cpuset="0x0" nodeset="0x2"
      complete_nodeset="0x2" gp_index="8" local_memory="102005473280"/>
    <object type="Package" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1"
      complete_nodeset="0x1" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1"
        complete_nodeset="0x1" gp_index="3" local_memory="400000000000"/>
      <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
        complete_nodeset="0x1" gp_index="4">
        <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
          complete_nodeset="0x1" gp_index="5"/>
      </object>
      <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1"
        complete_nodeset="0x1" gp_index="6">
        <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1"
          complete_nodeset="0x1" gp_index="7"/>
      </object>
    </object>
  </object>
</topology>
)";

TEST_F(HostProbeTest, GpuMemoryThatIsANumaNodeIsNoHostMemory) {
  tree.Write("sys/devices/system/node/node0/cpulist", "0-1\n");
  tree.Write("sys/devices/system/node/node1/cpulist", "\n");
  ::setenv("HWLOC_XMLFILE", tree.Write("gh200.xml", kGraceHopper).c_str(), 1);
  const HostFacts coherent = ProbeHost(roots, CoherentMode::kNuma);
  const HostFacts plain = ProbeHost(roots, CoherentMode::kNone);
  ::unsetenv("HWLOC_XMLFILE");
  EXPECT_EQ(coherent.memory_bytes, 502000000 * kKiB - 102005473280);
  ASSERT_EQ(coherent.numa.size(), 2u);
  EXPECT_EQ(coherent.numa[0], (NumaNode{0, 2, 400000000000}));
  EXPECT_EQ(coherent.numa[1], (NumaNode{1, 0, 102005473280}));
  EXPECT_EQ(coherent.cores, 2);
  EXPECT_EQ(plain.memory_bytes, 502000000 * kKiB) << "far memory of another kind is memory";
}

TEST_F(HostProbeTest, FreeGpuMemoryIsNotAvailableToRanks) {
  tree.Write("sys/devices/system/node/node0/cpulist", "0-71\n");
  tree.Write("sys/devices/system/node/node0/meminfo", "Node 0 MemFree:  300000000 kB\n");
  tree.Write("sys/devices/system/node/node1/cpulist", "\n");
  tree.Write("sys/devices/system/node/node1/meminfo",
             "Node 1 MemTotal:  99614720 kB\nNode 1 MemFree:  90000000 kB\n");
  EXPECT_EQ(SampleHost(roots, CoherentMode::kNuma).memory_available_bytes, 310000000 * kKiB);
  EXPECT_EQ(SampleHost(roots, CoherentMode::kNone).memory_available_bytes, 400000000 * kKiB);
}

TEST_F(HostProbeTest, AContainersLimitsCountWhereTheyAreLower) {
  tree.Write("proc/self/cgroup", "0::/pod/agent\n");
  tree.Write("sys/fs/cgroup/memory.max", "max\n");
  tree.Write("sys/fs/cgroup/pod/memory.max", "34359738368\n");
  tree.Write("sys/fs/cgroup/pod/cpu.max", "100000 100000\n");
  tree.Write("sys/fs/cgroup/pod/agent/memory.max", "max\n");
  tree.Write("sys/fs/cgroup/pod/agent/cpu.max", "max 100000\n");
  const HostFacts host = ProbeHost(roots, CoherentMode::kNone);
  EXPECT_EQ(host.memory_bytes, 32 * kGiB);
  EXPECT_EQ(host.cores, 1);
}

// The machine has 400 GB free, the container 3 of its 8 GiB.
TEST_F(HostProbeTest, WhatAContainerHasLeftIsWhatIsFree) {
  tree.Write("proc/self/cgroup", "0::/pod/agent\n");
  tree.Write("sys/fs/cgroup/pod/memory.max", "8589934592\n");
  tree.Write("sys/fs/cgroup/pod/memory.current", "6442450944\n");
  tree.Write("sys/fs/cgroup/pod/memory.stat", "anon 5368709120\ninactive_file 1073741824\n");
  const auto free = [this] {
    return SampleHost(roots, CoherentMode::kNone).memory_available_bytes;
  };
  EXPECT_EQ(free(), 3 * kGiB);
  tree.Write("sys/fs/cgroup/pod/memory.current", "9663676416\n");
  EXPECT_EQ(free(), 1u) << "0 would mean that it was not measured";
  tree.Write("sys/fs/cgroup/pod/memory.max", "max\n");
  EXPECT_EQ(free(), 400000000 * kKiB);
  tree.Write("proc/self/cgroup", "4:memory:/box\n");
  tree.Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8589934592\n");
  tree.Write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "6442450944\n");
  EXPECT_EQ(free(), 2 * kGiB);
}

TEST_F(HostProbeTest, LimitsAreFoundInBothVersionsOfCgroups) {
  tree.Write("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n");
  tree.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(ReadCgroupLimits(roots).memory_bytes, std::nullopt) << "v1's way to say none";
  tree.Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8589934592\n");
  tree.Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
  tree.Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ReadCgroupLimits(roots).memory_bytes, 8 * kGiB);
  EXPECT_EQ(ReadCgroupLimits(roots).cpus, 2.5);
  tree.Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(ReadCgroupLimits(roots).cpus, std::nullopt);
}

TEST_F(HostProbeTest, KnowsTheMachineByWhatOutlivesAReinstall) {
  tree.Write("sys/class/dmi/id/product_uuid", "4c4c4544-0051-3010-8052-b4c04f4b3132\n");
  tree.Write("sys/class/net/eth1/address", "02:00:00:00:00:01\n");
  tree.Write("sys/class/net/eth1/addr_assign_type", "0\n");
  tree.Directory("sys/class/net/eth1/device");
  tree.Write("sys/class/net/veth0/address", "aa:00:00:00:00:02\n");
  tree.Write("sys/class/net/veth0/addr_assign_type", "1\n");
  const MachineIdentity machine = ProbeMachine(roots);
  EXPECT_EQ(machine.product_uuid, "4c4c4544-0051-3010-8052-b4c04f4b3132");
  EXPECT_EQ(machine.macs, std::vector<std::string>{"02:00:00:00:00:01"});
  const MachineIdentity real = ProbeMachine({});
  EXPECT_FALSE(real.network_namespace.empty());
  EXPECT_EQ(real.network_namespace.find_first_not_of("0123456789"), std::string::npos);
  EXPECT_EQ(BootId({}).size(), 36u);
}

TEST_F(HostProbeTest, ARootWithNothingInItGivesZeroAndNoCrash) {
  const HostRoots nowhere{tree.Path("absent"), tree.Path("absent")};
  EXPECT_EQ(ProbeHost(nowhere, CoherentMode::kNuma).memory_bytes, 0u);
  EXPECT_EQ(SampleHost(nowhere, CoherentMode::kNuma), HostSample{});
  EXPECT_EQ(ProbeMachine(nowhere), MachineIdentity{});
}

}  // namespace
}  // namespace launch::agent
