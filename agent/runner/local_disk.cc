#include "agent/runner/local_disk.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace launch::agent {
namespace {

// Everything else may be shared: network and cluster file systems, whatever comes by FUSE.
constexpr std::array<std::uint32_t, 9> kLocal = {
    EXT4_SUPER_MAGIC,       // also ext2 and ext3
    BTRFS_SUPER_MAGIC,      //
    F2FS_SUPER_MAGIC,       //
    TMPFS_MAGIC,            //
    RAMFS_MAGIC,            //
    OVERLAYFS_SUPER_MAGIC,  // of a container
    0x58465342,             // XFS
    0x2fc12fc1,             // ZFS
    0xca451a4e,             // bcachefs
};

// The first word of each line; a space in a name is written \040.
bool IsExported(const std::string& path, const std::string& exports) {
  std::ifstream table(exports);
  for (std::string line; std::getline(table, line);) {
    std::string root = line.substr(0, line.find_first_of("\t "));
    for (std::size_t at = 0; (at = root.find("\\040", at)) != std::string::npos; ++at) {
      root.replace(at, 4, " ");
    }
    if (!root.starts_with('/')) continue;
    if (root == "/" || path == root || path.starts_with(root + "/")) return true;
  }
  return false;
}

}  // namespace

bool StaysHere(const std::string& path, const std::string& exports) {
  if (!path.starts_with('/')) return false;
  std::string there = path;
  struct statfs facts {};
  while (::statfs(there.c_str(), &facts) != 0) {
    if (errno != ENOENT || there.size() < 2) return false;
    there = std::filesystem::path(there).parent_path().string();
  }
  const auto type = static_cast<std::uint32_t>(facts.f_type);
  if (std::ranges::find(kLocal, type) == kLocal.end()) return false;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(there, error);
  return !IsExported(error ? there : real.string(), exports);
}

}  // namespace launch::agent
