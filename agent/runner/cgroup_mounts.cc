#include "agent/runner/cgroup_mounts.h"

#include <fstream>

#include "common/text.h"

namespace launch::agent {

CgroupMounts FindCgroupMounts(const std::string& file) {
  CgroupMounts mounts;
  std::ifstream in(file);
  std::string device;
  std::string where;
  std::string type;
  std::string options;
  std::string rest;
  while (in >> device >> where >> type >> options && std::getline(in, rest)) {
    if (type == "cgroup2" && mounts.v2.empty()) mounts.v2 = where;
    if (type != "cgroup") continue;
    for (const std::string_view option : Split(options, ',')) mounts.v1.emplace(option, where);
  }
  return mounts;
}

}  // namespace launch::agent
