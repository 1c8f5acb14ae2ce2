// How often the limit of processes of a control group was reached (pids.max): what makes fork fail
// with "Resource temporarily unavailable".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace launch::agent {

struct CgroupPlaces {  // seams for tests
  std::string proc = "/proc";
  std::string mounts = "/proc/self/mounts";
};

// For the groups of a process, those of `groups` (directories), and all above them, where the pids
// controller counts: the directory to the number of times that its limit was reached. Kernels
// before 6.11 count in the group of the process that forks, later ones in the one with the limit
// (kernel/cgroup/pids.c).
std::map<std::string, std::uint64_t> ProcessLimitHits(std::int64_t pid,
                                                      const std::vector<std::string>& groups = {},
                                                      const CgroupPlaces& places = {});

// One sentence for each group whose limit was reached since `before`:
// "pids.max of /sys/fs/cgroup/job (512) was reached 3 times".
std::vector<std::string> ProcessLimitHitsSince(const std::map<std::string, std::uint64_t>& before);

}  // namespace launch::agent
