// Where the hierarchies of control groups are mounted.
#pragma once

#include <map>
#include <string>

namespace launch::agent {

struct CgroupMounts {
  std::string v2;                         // empty: not mounted
  std::map<std::string, std::string> v1;  // controller (and other options) -> mount point
};

// The first mount of each hierarchy that the file, in the format of /proc/self/mounts, names.
CgroupMounts FindCgroupMounts(const std::string& file = "/proc/self/mounts");

}  // namespace launch::agent
