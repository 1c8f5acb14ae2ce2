#include "agent/runner/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

namespace launch::agent {

Result<FileLock> FileLock::Take(const std::string& path) {
  // Two steps: in a shared sticky directory, O_CREAT on another user's file is refused.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) {
    fd.Reset(::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  }
  if (!fd) return FailErrno("open " + path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FailErrno("flock " + path, errno);
    return Fail(ErrorCode::kConflict, path + " is locked by another process",
                "`fuser " + path + "` names it");
  }
  return FileLock(path, std::move(fd));
}

LockState ProbeLock(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno == ENOENT ? LockState::kMissing : LockState::kHeld;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return LockState::kHeld;
  return LockState::kFree;
}

std::string GpuLockPath(const std::string& lock_dir, const GpuUuid& gpu) {
  std::string name = gpu.value;
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  return lock_dir + "/gpu-" + name + ".lock";
}

Result<std::vector<FileLock>> TakeGpuLocks(const std::string& lock_dir,
                                           const std::vector<GpuUuid>& gpus) {
  std::vector<FileLock> locks;
  for (const GpuUuid& gpu : gpus) {
    auto lock = FileLock::Take(GpuLockPath(lock_dir, gpu));
    if (!lock) {
      if (lock.error().code != ErrorCode::kConflict) return Unexpected(std::move(lock).error());
      return Fail(ErrorCode::kConflict, "GPU " + gpu.value + " is locked by another allocation",
                  lock.error().hint);
    }
    locks.push_back(std::move(*lock));
  }
  return locks;
}

}  // namespace launch::agent
