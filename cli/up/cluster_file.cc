#include "cli/up/cluster_file.h"

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

}  // namespace launch::up
