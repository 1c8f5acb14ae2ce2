#include "agent/runner/process_limits.h"

#include <filesystem>
#include <optional>
#include <sstream>

#include "agent/runner/cgroup_mounts.h"
#include "agent/runner/small_files.h"
#include "common/counted_limits.h"
#include "common/flat_keyed.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> HitsOf(const std::string& directory) {
  return FlatKeyed(ReadText(directory + "/pids.events"), "max");
}

}  // namespace

std::map<std::string, std::uint64_t> ProcessLimitHits(std::int64_t pid,
                                                      const std::vector<std::string>& groups,
                                                      const CgroupPlaces& places) {
  std::map<std::string, std::uint64_t> hits;
  const auto walk_up = [&](fs::path at, const fs::path& top) {
    for (;; at = at.parent_path()) {
      if (const auto count = HitsOf(at.string())) hits[at.string()] = *count;
      if (at == top || !at.has_relative_path()) return;
    }
  };
  for (const std::string& group : groups) walk_up(group, "/");
  const CgroupMounts mounts = FindCgroupMounts(places.mounts);
  const auto pids = mounts.v1.find("pids");
  const std::string v1_mount = pids == mounts.v1.end() ? "" : pids->second;
  std::istringstream lines(ReadText(places.proc + "/" + std::to_string(pid) + "/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "8:pids:/job", "0::/job"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v1 = names.find(",pids,") != std::string::npos;
    const std::string& mount = v1 ? v1_mount : mounts.v2;
    if (mount.empty() || (!v1 && names != ",,")) continue;
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    walk_up(group.empty() ? fs::path(mount) : fs::path(mount) / group, mount);
  }
  return hits;
}

std::vector<std::string> ProcessLimitHitsSince(const std::map<std::string, std::uint64_t>& before) {
  std::vector<std::string> said;
  for (const auto& [directory, count] : before) {
    const std::uint64_t now = HitsOf(directory).value_or(count);
    if (now <= count) continue;
    std::istringstream limit(ReadText(directory + "/pids.max"));
    std::string most;
    limit >> most;
    said.push_back(std::string(kPidsMaxOf) + directory + (most.empty() ? "" : " (" + most + ")") +
                   " was reached " + std::to_string(now - count) +
                   (now - count == 1 ? " time" : " times"));
  }
  return said;
}

}  // namespace launch::agent
