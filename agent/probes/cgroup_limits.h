// What the container this agent itself runs in allows, from cgroup v1 or v2.
#pragma once

#include <cstdint>
#include <optional>

namespace launch::agent {

struct HostRoots;

struct CgroupLimits {  // lowest on the way to the root; absent = none
  std::optional<std::uint64_t> memory_bytes;
  // What is left below the limits, file pages that the kernel can drop at once counted as free.
  std::optional<std::uint64_t> memory_available_bytes;
  std::optional<double> cpus;  // quota over period
};

// Reads <proc>/self/cgroup and <sys>/fs/cgroup. The cpuset is hwloc's business.
CgroupLimits ReadCgroupLimits(const HostRoots& roots);

}  // namespace launch::agent
