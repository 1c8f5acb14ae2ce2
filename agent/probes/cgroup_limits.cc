#include "agent/probes/cgroup_limits.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>

#include "agent/probes/host_probe.h"
#include "agent/probes/small_files.h"
#include "common/file_system.h"
#include "common/flat_keyed.h"
#include "common/text.h"
#include "common/units.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNoLimitV1 = 1ull << 60;  // v1 writes a huge number instead of "max"

template <class T>
void Lower(std::optional<T>& limit, T candidate) {
  if (!limit || candidate < *limit) limit = candidate;
}

// Calls `visit` for the directory of `group` below `root` and each one above it. Inside a container
// the group's path is often the host's and does not exist: then only the root is visited.
void WalkUp(const fs::path& root, const std::string& group,
            const std::function<void(const std::string&)>& visit) {
  for (fs::path at = fs::path(group).relative_path(); !at.empty(); at = at.parent_path())
    if (PathExists(root / at)) visit((root / at).string());
  visit(root.string());
}

// A limit of `bytes`, of which the file says how much is used. The kernel's own reclaim takes
// inactive file pages first (Documentation/admin-guide/cgroup-v2.rst), as it does before it kills.
void TakeMemory(std::uint64_t bytes, const std::string& directory, const char* used_file,
                const char* inactive, CgroupLimits& limits) {
  Lower<std::uint64_t>(limits.memory_bytes, bytes);
  const auto said = ParseInt(TrimmedFile(directory + used_file));
  if (!said || *said < 0) return;
  const auto used = static_cast<std::uint64_t>(*said);
  const std::uint64_t cache =
      FlatKeyed(ReadSmallFile(directory + "/memory.stat"), inactive).value_or(0);
  const std::uint64_t kept = used - std::min(used, cache);
  Lower<std::uint64_t>(limits.memory_available_bytes, bytes - std::min(bytes, kept));
}

void ReadV2(const std::string& directory, CgroupLimits& limits) {
  if (const auto bytes = ParseInt(TrimmedFile(directory + "/memory.max")); bytes && *bytes >= 0)
    TakeMemory(static_cast<std::uint64_t>(*bytes), directory, "/memory.current", "inactive_file",
               limits);
  std::istringstream quota(ReadSmallFile(directory + "/cpu.max"));  // "max 100000"
  double microseconds = 0;
  double period = 0;
  if (quota >> microseconds >> period && period > 0) Lower(limits.cpus, microseconds / period);
}

void ReadV1Memory(const std::string& directory, CgroupLimits& limits) {
  const auto bytes = ParseInt(TrimmedFile(directory + "/memory.limit_in_bytes"));
  if (bytes && *bytes > 0 && static_cast<std::uint64_t>(*bytes) < kNoLimitV1)
    TakeMemory(static_cast<std::uint64_t>(*bytes), directory, "/memory.usage_in_bytes",
               "total_inactive_file", limits);
}

void ReadV1Cpu(const std::string& directory, CgroupLimits& limits) {
  const auto quota = ParseInt(TrimmedFile(directory + "/cpu.cfs_quota_us"));
  const auto period = ParseInt(TrimmedFile(directory + "/cpu.cfs_period_us"));
  if (quota && period && *quota > 0 && *period > 0)
    Lower(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
}

bool Holds(std::string_view controllers, std::string_view wanted) {
  return std::ranges::count(Split(controllers, ','), wanted) > 0;
}

}  // namespace

CgroupLimits ReadCgroupLimits(const HostRoots& roots) {
  CgroupLimits limits;
  const std::string root = roots.sys + "/fs/cgroup";
  std::istringstream lines(ReadSmallFile(roots.proc + "/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/path", "0::/path"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      WalkUp(root, group, [&](const std::string& at) { ReadV2(at, limits); });
    } else if (Holds(controllers, "memory")) {
      WalkUp(root + "/memory", group, [&](const std::string& at) { ReadV1Memory(at, limits); });
    } else if (Holds(controllers, "cpu")) {
      for (const char* place : {"/cpu", "/cpu,cpuacct"})
        WalkUp(root + place, group, [&](const std::string& at) { ReadV1Cpu(at, limits); });
    }
  }
  return limits;
}

}  // namespace launch::agent
