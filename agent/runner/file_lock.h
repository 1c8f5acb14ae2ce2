// flock on an open description that outlives this process when a child inherits it.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "common/unique_fd.h"

namespace launch::agent {

// The lock holds until the last inherited copy of the descriptor is closed, which is read-only: a
// rank that inherits it cannot write to the file.
class FileLock {
 public:
  // Never waits. CONFLICT when somebody holds it.
  static Result<FileLock> Take(const std::string& path);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  FileLock(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

enum class LockState { kFree, kHeld, kMissing };
LockState ProbeLock(const std::string& path);

// For an agent that runs the jobs of many accounts: checks that nobody but this process's user may
// make, remove or open a lock, and removes locks of others from when they could.
// kFailedPrecondition: somebody else may.
Result<void> CheckLockDir(const std::string& lock_dir);

std::string GpuLockPath(const std::string& lock_dir, const GpuUuid& gpu);

// Takes the locks of all these GPUs or of none. CONFLICT names the GPU that is taken.
Result<std::vector<FileLock>> TakeGpuLocks(const std::string& lock_dir,
                                           const std::vector<GpuUuid>& gpus);

}  // namespace launch::agent
