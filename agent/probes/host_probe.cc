#include "agent/probes/host_probe.h"

#include <gnu/libc-version.h>
#include <hwloc.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "agent/probes/cgroup_limits.h"
#include "agent/probes/small_files.h"
#include "common/file_system.h"
#include "common/units.h"

namespace launch::agent {
namespace {

struct Machine {
  int cores = 0;
  int threads = 0;
  std::vector<NumaNode> numa;
  std::vector<int> gpu_memory_nodes;
};

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

// hwloc leaves out what the container's cpuset forbids; the flag adds our own CPU binding.
Topology LoadTopology() {
  for (const unsigned long flags : {HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING + 0ul, 0ul}) {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) break;
    Topology topology(raw, &hwloc_topology_destroy);
    hwloc_topology_set_flags(raw, flags);
    if (hwloc_topology_load(raw) == 0) return topology;
  }
  return {nullptr, &hwloc_topology_destroy};
}

Machine ReadMachine(const HostRoots& roots, CoherentMode coherent) {
  Machine machine;
  const Topology topology = LoadTopology();
  if (!topology) {
    machine.cores = machine.threads =
        static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    return machine;
  }
  machine.threads = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_PU);
  machine.cores = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE);
  if (machine.cores <= 0) machine.cores = machine.threads;  // some virtual machines tell no cores
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node))) {
    NumaNode found{.id = static_cast<int>(node->os_index),
                   .cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology.get(), node->cpuset,
                                                                   HWLOC_OBJ_CORE),
                   .memory_bytes = node->attr->numanode.local_memory};
    if (found.cores == 0)
      found.cores =
          hwloc_get_nbobjs_inside_cpuset_by_type(topology.get(), node->cpuset, HWLOC_OBJ_PU);
    // hwloc places a node without cores beside the cores that are near; the kernel knows better.
    const std::string cpus =
        roots.sys + "/devices/system/node/node" + std::to_string(found.id) + "/cpulist";
    if (PathExists(cpus) && TrimmedFile(cpus).empty()) found.cores = 0;
    const bool marked = node->subtype != nullptr && std::string(node->subtype).starts_with("GPU");
    if (found.cores == 0 && (marked || coherent == CoherentMode::kNuma))
      machine.gpu_memory_nodes.push_back(found.id);
    machine.numa.push_back(found);
  }
  std::sort(machine.numa.begin(), machine.numa.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return machine;
}

std::optional<std::uint64_t> LimitOf(__rlimit_resource what) {
  rlimit limit{};
  if (::getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// "MemTotal:  24684084 kB", also in the per-node form "Node 1 MemFree:  123 kB".
std::uint64_t MemoryField(const std::string& text, const std::string& field) {
  const auto at = text.find(field + ":");
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + field.size() + 1, nullptr, 10) * kKiB;
}

// In a container the machine's own free memory is not ours to use; 0 would mean "not measured".
HostSample WithinContainer(const HostRoots& roots, HostSample sample) {
  const std::optional<std::uint64_t> left = ReadCgroupLimits(roots).memory_available_bytes;
  if (left && *left < sample.memory_available_bytes)
    sample.memory_available_bytes = std::max<std::uint64_t>(*left, 1);
  return sample;
}

}  // namespace

void ConfigureHwloc() {
  // hwloc 2.9 hides GPU memory nodes and 2.11 shows them on Grace: ask for one behaviour.
  ::setenv("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1", 1);
}

HostFacts ProbeHost(const HostRoots& roots, CoherentMode coherent) {
  HostFacts host;
  utsname system{};
  if (::uname(&system) == 0) {
    host.arch = ParseArch(system.machine).value_or(Arch::kX86_64);
    host.kernel = system.release;
  }
  host.glibc = ::gnu_get_libc_version();
  host.page_size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

  const Machine machine = ReadMachine(roots, coherent);
  const CgroupLimits container = ReadCgroupLimits(roots);
  host.cores = machine.cores;
  host.threads = machine.threads;
  host.numa = machine.numa;
  if (container.cpus && *container.cpus < host.cores)
    host.cores = std::max(1, static_cast<int>(*container.cpus));

  host.memory_bytes = MemoryField(ReadSmallFile(roots.proc + "/meminfo"), "MemTotal");
  for (const NumaNode& node : host.numa) {
    const auto& gpu = machine.gpu_memory_nodes;
    if (std::find(gpu.begin(), gpu.end(), node.id) == gpu.end()) continue;
    host.memory_bytes -= std::min(host.memory_bytes, node.memory_bytes);
  }
  if (container.memory_bytes)
    host.memory_bytes = std::min(host.memory_bytes, *container.memory_bytes);

  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) host.shm_bytes = shm.f_blocks * shm.f_frsize;
  host.limits = {.memlock_bytes = LimitOf(RLIMIT_MEMLOCK),
                 .nofile = LimitOf(RLIMIT_NOFILE),
                 .nproc = LimitOf(RLIMIT_NPROC)};
  return host;
}

HostSample SampleHost(const HostRoots& roots, CoherentMode coherent) {
  HostSample sample;
  sample.load1 = std::strtod(ReadSmallFile(roots.proc + "/loadavg").c_str(), nullptr);
  sample.memory_available_bytes =
      MemoryField(ReadSmallFile(roots.proc + "/meminfo"), "MemAvailable");
  if (coherent != CoherentMode::kNuma) return WithinContainer(roots, sample);
  for (const std::string& name : ListNames(roots.sys + "/devices/system/node")) {
    const std::string node = roots.sys + "/devices/system/node/" + name;
    if (!name.starts_with("node") || !TrimmedFile(node + "/cpulist").empty()) continue;
    const std::uint64_t free = MemoryField(ReadSmallFile(node + "/meminfo"), "MemFree");
    sample.memory_available_bytes -= std::min(sample.memory_available_bytes, free);
  }
  return WithinContainer(roots, sample);
}

MachineIdentity ProbeMachine(const HostRoots& roots) {
  MachineIdentity machine;
  machine.product_uuid = TrimmedFile(roots.sys + "/class/dmi/id/product_uuid");
  for (const std::string& name : ListNames(roots.sys + "/class/net")) {
    const std::string interface = roots.sys + "/class/net/" + name;
    // Only hardware keeps its address over reboots; 0 says that it was not made up.
    if (!PathExists(interface + "/device")) continue;
    if (TrimmedFile(interface + "/addr_assign_type") != "0") continue;
    machine.macs.push_back(TrimmedFile(interface + "/address"));
  }
  std::sort(machine.macs.begin(), machine.macs.end());
  std::error_code ignored;
  const std::string link =
      std::filesystem::read_symlink(roots.proc + "/self/ns/net", ignored).string();
  if (link.starts_with("net:[") && link.ends_with("]"))
    machine.network_namespace = link.substr(5, link.size() - 6);
  return machine;
}

std::string BootId(const HostRoots& roots) {
  return TrimmedFile(roots.proc + "/sys/kernel/random/boot_id");
}

}  // namespace launch::agent
