#include "controller/store/local_disk.h"

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/unique_fd.h"

namespace launch::controller {

Result<void> RefuseNetwork(const std::string& dir) {
  struct statfs facts {};
  if (::statfs(dir.c_str(), &facts) != 0) return FailErrno("statfs " + dir, errno);
  constexpr std::array<std::pair<std::uint32_t, std::string_view>, 7> kNetwork{{
      {0x6969, "NFS"},
      {0x517B, "SMB"},
      {0xFF534D42, "CIFS"},
      {0xFE534D42, "SMB2"},
      {0x0BD00BD0, "Lustre"},
      {0x47504653, "GPFS"},
      {0x00C36400, "Ceph"},
  }};
  for (const auto& [magic, name] : kNetwork) {
    if (static_cast<std::uint32_t>(facts.f_type) == magic) {
      return Fail(ErrorCode::kFailedPrecondition,
                  "the state directory " + dir + " is on " + std::string(name),
                  "use a directory on a disk of this host");
    }
  }
  return {};
}

Result<void> SyncPath(const std::string& path, int flags) {
  const UniqueFd file(::open(path.c_str(), flags | O_CLOEXEC));
  if (!file) return FailErrno("open " + path, errno);
  if (::fsync(file.get()) != 0) return FailErrno("fsync " + path, errno);
  return {};
}

}  // namespace launch::controller
