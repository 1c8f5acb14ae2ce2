#include "controller/store/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <utility>

namespace launch::controller {

Result<StateLock> StateLock::Take(const std::string& dir) {
  const std::string path = dir + "/lock";
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    if (errno == ENOENT) {
      return Fail(ErrorCode::kNotFound, "no state directory " + dir,
                  "make one with `launch-controller init --state DIR`");
    }
    return FailErrno("open " + path, errno);
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FailErrno("flock " + path, errno);
    std::array<char, 32> text{};
    const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
    std::string pid(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    pid.erase(pid.find_last_not_of(" \n") + 1);
    return Fail(
        ErrorCode::kConflict,
        "the state directory " + dir + " is in use by process " + (pid.empty() ? "(unknown)" : pid),
        "stop that controller first");
  }
  // For people only: the lock is the truth, and it holds on a full disk, too.
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(file.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t size = ::pwrite(file.get(), pid.data(), pid.size(), 0);
  }
  return StateLock(std::move(file));
}

}  // namespace launch::controller
