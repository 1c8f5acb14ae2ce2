// What this machine is apart from its GPUs and software: processor, memory, limits, identity, load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/inventory.h"

namespace launch::agent {

struct HostFacts {
  Arch arch = Arch::kX86_64;
  std::string kernel;
  std::string glibc;
  std::uint64_t page_size = 4096;
  int cores = 0;    // physical, within the cpuset this process may use
  int threads = 0;  // hardware threads of those
  std::vector<NumaNode> numa;
  std::uint64_t memory_bytes = 0;  // RAM of nodes with cores, or the container's limit if lower
  std::uint64_t shm_bytes = 0;
  Limits limits;
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

struct HostRoots {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

// To be called once before threads start: hwloc reads its settings from the environment.
void ConfigureHwloc();

// Facts of the host. In coherent NUMA mode a NUMA node without cores is GPU memory, not the host's
// RAM (GH200).
HostFacts ProbeHost(const HostRoots& roots, CoherentMode coherent);
HostSample SampleHost(const HostRoots& roots, CoherentMode coherent);
// The machine's identity without install_id, which is the agent's own (made at join).
MachineIdentity ProbeMachine(const HostRoots& roots);
std::string BootId(const HostRoots& roots);

}  // namespace launch::agent
