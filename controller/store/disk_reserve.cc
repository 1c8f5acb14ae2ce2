#include "controller/store/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/free_space.h"
#include "common/unique_fd.h"

namespace launch::controller {
namespace {

// So that it is not made from the last bytes, only to be spent again at once.
constexpr std::uint64_t kTimesFree = 3;
constexpr Millis kPause{5'000};

bool HasRoom(const std::string& path, std::uint64_t bytes) {
  const auto free = FreeBytes(std::filesystem::path(path).parent_path());
  return free && *free >= kTimesFree * bytes;
}

}  // namespace

void DiskReserve::Restore() {
  struct stat there {};
  const bool known = ::lstat(path_.c_str(), &there) == 0;
  if (known && static_cast<std::uint64_t>(there.st_blocks) * 512 >= bytes_) {
    spent_ = false;
    return;
  }
  // An empty one was spent, by us or by a process before us.
  spent_ = known && S_ISREG(there.st_mode) && there.st_size == 0;
  if (known && !spent_) (void)::unlink(path_.c_str());
  if (!HasRoom(path_, bytes_)) return;
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return;
  if (::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes_)) == 0) {
    spent_ = false;
  } else if (spent_) {
    (void)::ftruncate(file.get(), 0);
  } else {
    (void)::unlink(path_.c_str());
  }
}

void DiskReserve::TryAgain(BootTime now) {
  if (!spent_ || (next_try_ && now < *next_try_)) return;
  // What was just given back is not taken at once.
  if (next_try_) Restore();
  next_try_ = spent_ ? std::optional(now + kPause) : std::nullopt;
}

// The name stays, so that a start on the full disk knows that there was one.
bool DiskReserve::Spend() {
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat there {};
  if (!file || ::fstat(file.get(), &there) != 0 || there.st_size == 0) return false;
  if (::ftruncate(file.get(), 0) != 0) return false;
  spent_ = true;
  return true;
}

}  // namespace launch::controller
