#include "common/open_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace launch {
namespace {

constexpr int kEntered = O_PATH | O_DIRECTORY | O_CLOEXEC;

UniqueFd OpenByKernel(int dir, const std::string& path) {
  open_how how{};
  how.flags = kEntered;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, dir, path.c_str(), &how, sizeof how)));
}

bool IsLink(int dir, const char* name) {
  struct stat info {};
  return ::fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

// Before Linux 5.6, and in sandboxes that do not know the call: name by name, through no link.
UniqueFd OpenByName(int dir, const std::string& path) {
  UniqueFd at(::openat(dir, ".", kEntered));
  for (const std::filesystem::path& name : std::filesystem::path(path)) {
    if (!at || name == ".." || name == "/") {
      if (at) errno = EXDEV;
      return {};
    }
    if (name.empty() || name == ".") continue;
    UniqueFd next(::openat(at.get(), name.c_str(), kEntered | O_NOFOLLOW));
    if (!next && errno == ENOTDIR) errno = IsLink(at.get(), name.c_str()) ? ELOOP : ENOTDIR;
    at = std::move(next);
  }
  return at;
}

}  // namespace

Result<UniqueFd> OpenBeneath(int dir, const std::string& path) {
  UniqueFd opened = OpenByKernel(dir, path);
  if (!opened && (errno == ENOSYS || errno == EPERM)) opened = OpenByName(dir, path);
  if (opened) return opened;
  if (errno == EXDEV || errno == ELOOP)
    return Fail(ErrorCode::kPermissionDenied, path + " leads out of the directory");
  return FailErrno("open " + path, errno);
}

}  // namespace launch
