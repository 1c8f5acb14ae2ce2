#include "agent/runner/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace launch::agent {

namespace fs = std::filesystem;

namespace {

// Who may open a lock may hold it, for ever: it is its owner's alone. Only in a directory that
// others may write to, where agents of several users meet, it must be theirs too.
mode_t ModeOfLock(const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/'));
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return 0600;
  if ((info.st_mode & S_IWOTH) != 0) return 0644;
  // Its files may have the group of whoever made them, unless the directory hands its own on.
  if ((info.st_mode & S_IWGRP) != 0) return (info.st_mode & S_ISGID) != 0 ? 0640 : 0644;
  return 0600;
}

}  // namespace

Result<FileLock> FileLock::Take(const std::string& path) {
  const mode_t mode = ModeOfLock(path);
  const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW;
  // Two steps: in a shared sticky directory, O_CREAT on another user's file is refused.
  UniqueFd fd(::open(path.c_str(), flags));
  if (!fd && errno == ENOENT) fd.Reset(::open(path.c_str(), flags | O_CREAT, mode));
  if (!fd) return FailErrno("open " + path, errno);
  (void)::fchmod(fd.get(), mode);  // one that an older agent made; not ours: as its owner has it
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

namespace {

bool LetsOthersWrite(const struct stat& directory) {
  const bool group = (directory.st_mode & S_IWGRP) != 0 && directory.st_gid != 0;
  return group || (directory.st_mode & S_IWOTH) != 0;
}

// Others could put a directory of their own in the place of one below `directory`.
bool LetsOthersRename(const struct stat& directory) {
  const bool sticky = (directory.st_mode & S_ISVTX) != 0;
  const bool ours = directory.st_uid == 0 || directory.st_uid == ::geteuid();
  return !ours || (!sticky && LetsOthersWrite(directory));
}

// Made while others could: their owners may hold them for ever, whatever their mode is.
void RemoveForeignLocks(const std::string& lock_dir) {
  std::error_code error;
  for (fs::directory_iterator entry(lock_dir, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat info {};
    const std::string path = entry->path().string();
    if (!path.ends_with(".lock") || ::lstat(path.c_str(), &info) != 0) continue;
    if (info.st_uid != ::geteuid()) (void)::unlink(path.c_str());
  }
}

}  // namespace

Result<void> CheckLockDir(const std::string& lock_dir) {
  const auto found = [](const std::string& directory, const struct stat& info) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", info.st_mode & 07777u);
    return directory + " (mode " + mode + ", owner uid " + std::to_string(info.st_uid) + ")";
  };
  const std::string other = ", or name another directory as lock_dir in agent.yaml";
  struct stat info {};
  if (::stat(lock_dir.c_str(), &info) != 0) return FailErrno("stat " + lock_dir, errno);
  const std::string what = "lock_dir " + found(lock_dir, info);
  if (info.st_uid != ::geteuid())
    return Fail(ErrorCode::kFailedPrecondition,
                what + " belongs to another account, which could keep jobs from the GPUs",
                "chown " + std::to_string(::geteuid()) + " " + lock_dir + other);
  if (LetsOthersWrite(info))
    return Fail(ErrorCode::kFailedPrecondition,
                what + " can be written to by other accounts, which could keep jobs from the GPUs",
                "chmod go-w " + lock_dir + other);
  std::error_code error;
  for (fs::path above = fs::canonical(lock_dir, error).parent_path(); !error && !above.empty();
       above = above.parent_path()) {
    if (::stat(above.c_str(), &info) != 0) return FailErrno("stat " + above.string(), errno);
    if (LetsOthersRename(info))
      return Fail(ErrorCode::kFailedPrecondition,
                  "lock_dir " + lock_dir + " lies in " + found(above.string(), info) +
                      ", where other accounts could put another in its place",
                  "chown root and chmod go-w " + above.string() + other);
    if (above == above.root_path()) break;
  }
  if (error) return FailErrno("resolve " + lock_dir, error.value());
  RemoveForeignLocks(lock_dir);
  return {};
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
