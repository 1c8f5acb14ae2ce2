#include "common/free_space.h"

#include <sys/statvfs.h>

#include <cerrno>

namespace launch {

Result<std::uint64_t> FreeBytes(const std::string& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return FailErrno("statvfs " + path, errno);
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace launch
