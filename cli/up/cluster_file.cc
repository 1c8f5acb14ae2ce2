#include "cli/up/cluster_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/file_system.h"

namespace launch::up {
namespace {

constexpr const char* kName = "hosts.yaml";

}  // namespace

Result<std::optional<HostSet>> ReadClusterFile(const Contexts& contexts,
                                               const std::string& cluster) {
  const std::string path = contexts.Dir(cluster) + "/" + kName;
  const auto text = PosixFileSystem().Read(path, kMostHostsBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<HostSet>();
  if (!text) return Unexpected(text.error());
  LAUNCH_ASSIGN_OR_RETURN(HostSet known, ReadHosts(*text, path));
  return std::optional<HostSet>(std::move(known));
}

Result<void> WriteClusterFile(Contexts& contexts, const std::string& cluster, const HostSet& set) {
  return contexts.SaveText(cluster, kName, FormatHosts(set));
}

Result<void> RemoveClusterFile(const Contexts& contexts, const std::string& cluster) {
  return PosixFileSystem().RemoveTree(contexts.Dir(cluster) + "/" + kName);
}

std::vector<std::string> ClustersWithHosts(const Contexts& contexts) {
  namespace fs = std::filesystem;
  const fs::path dir = fs::path(contexts.Dir("any")).parent_path();
  auto names = PosixFileSystem().List(dir).value_or(std::vector<std::string>());
  std::erase_if(names, [&](const std::string& name) { return !PathExists(dir / name / kName); });
  return names;
}

Result<UniqueFd> LockCluster(const Contexts& contexts, const std::string& cluster) {
  LAUNCH_RETURN_IF_ERROR(Contexts::CheckName(cluster));
  const std::string dir = std::filesystem::path(contexts.Dir(cluster)).parent_path();
  LAUNCH_RETURN_IF_ERROR(PosixFileSystem().MakeDirs(dir));
  const std::string path = dir + "/." + cluster + ".lock";  // no cluster's name begins with a dot
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return Fail(ErrorCode::kIo, "open " + path + ": " + std::strerror(errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  return Fail(ErrorCode::kConflict,
              "another `launch` of yours is at work on the hosts of cluster " + cluster,
              "run this again when it has ended");
}

}  // namespace launch::up
