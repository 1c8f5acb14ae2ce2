#include "agent/runner/log_keeper.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/unique_fd.h"

namespace launch::agent {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::size_t kMovedAtOnce = 1 << 20;
constexpr std::array<const char*, 2> kStreams = {"/out", "/err"};

// Offset of the last entry; 0 = none.
std::uint64_t LastEntry(const std::string& path) {
  const UniqueFd index(::open(IndexPath(path).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!index || ::fstat(index.get(), &info) != 0) return 0;
  const off_t whole = info.st_size / static_cast<off_t>(sizeof(IndexEntry));
  IndexEntry last;
  const bool read = whole > 0 && ::pread(index.get(), &last, sizeof last,
                                         (whole - 1) * static_cast<off_t>(sizeof last)) ==
                                     static_cast<ssize_t>(sizeof last);
  return read ? last.offset : 0;
}

// What stands in the first `end` bytes goes behind them, and its place is given back.
void MoveBehind(int fd, off_t end) {
  std::string bytes(kMovedAtOnce, '\0');
  off_t at = 0;
  while ((at = ::lseek(fd, at, SEEK_DATA)) >= 0 && at < end) {
    const off_t hole = ::lseek(fd, at, SEEK_HOLE);
    const auto most = static_cast<std::size_t>(std::min(hole < 0 ? end : hole, end) - at);
    const ssize_t got = ::pread(fd, bytes.data(), std::min(most, bytes.size()), at);
    if (got <= 0) return;
    // Blocks are whole: zeros stand around what was written.
    const std::string_view block(bytes.data(), static_cast<std::size_t>(got));
    const std::size_t first = block.find_first_not_of('\0');
    if (first != std::string_view::npos) {
      const std::string_view text = block.substr(first, block.find_last_not_of('\0') - first + 1);
      if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return;
    }
    at += got;
  }
  (void)::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end);
}

}  // namespace

std::string IndexPath(const std::string& stream_path) { return stream_path + ".index"; }

LogKeeper::LogKeeper(std::string directory, std::uint64_t cap_bytes)
    : directory_(std::move(directory)), cap_bytes_(cap_bytes) {
  for (std::size_t i = 0; i < kStreams.size(); ++i) {
    indexed_[i] = LastEntry(directory_ + kStreams[i]);
  }
}

std::uint64_t LogKeeper::Look(WallTime now) {
  std::uint64_t punched = 0;
  for (std::size_t i = 0; i < kStreams.size(); ++i) {
    const std::string path = directory_ + kStreams[i];
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) continue;
    auto size = static_cast<std::uint64_t>(info.st_size);
    if (size < indexed_[i] || emptied_[i] > 0) size = GoOnBehind(i, path, size);
    const auto used = static_cast<std::uint64_t>(info.st_blocks) * 512;
    if (cap_bytes_ > 0 && used > cap_bytes_) punched += Punch(path, size, cap_bytes_);
    if (size <= indexed_[i]) continue;
    const UniqueFd index(
        ::open(IndexPath(path).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const IndexEntry entry{size, ToMs(now)};
    if (index && ::write(index.get(), &entry, sizeof entry) == sizeof entry) indexed_[i] = size;
  }
  return punched;
}

std::uint64_t LogKeeper::TakeEmptied() { return std::exchange(lost_, 0); }

std::uint64_t LogKeeper::GoOnBehind(std::size_t stream, const std::string& path,
                                    std::uint64_t size) {
  // It is the account's file, who may hold a lease on it: never waited for.
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return size;
  if (size < indexed_[stream]) {
    const std::uint64_t end = (indexed_[stream] + kBlock - 1) / kBlock * kBlock;
    if (::ftruncate(fd.get(), static_cast<off_t>(end)) != 0) return size;
    lost_ += indexed_[stream];
    emptied_[stream] = end;
  }
  MoveBehind(fd.get(), static_cast<off_t>(emptied_[stream]));
  struct stat info {};
  return ::fstat(fd.get(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : size;
}

std::uint64_t LogKeeper::Shrink() {
  std::uint64_t punched = 0;
  for (const char* const stream : kStreams) {
    const std::string path = directory_ + stream;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) continue;
    punched += Punch(path, static_cast<std::uint64_t>(info.st_size), 3 * kKeptHeadBytes);
  }
  return punched;
}

// Leaves the head and the newest part: half of what the cap allows beyond the head, so that the
// next punch is not due at the next line.
std::uint64_t LogKeeper::Punch(const std::string& path, std::uint64_t size,
                               std::uint64_t cap) const {
  const std::uint64_t head = std::min(kKeptHeadBytes, cap / 2);
  const std::uint64_t tail = (cap - head) / 2;
  if (size <= head + tail) return 0;
  const std::uint64_t from = head / kBlock * kBlock;
  const std::uint64_t to = (size - tail) / kBlock * kBlock;
  if (to <= from) return 0;
  // It is the account's file, who may hold a lease on it: never waited for.
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat before {};
  struct stat after {};
  if (!fd || ::fstat(fd.get(), &before) != 0) return 0;
  if (::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                  static_cast<off_t>(to - from)) != 0) {
    return 0;
  }
  if (::fstat(fd.get(), &after) != 0 || after.st_blocks >= before.st_blocks) return 0;
  return static_cast<std::uint64_t>(before.st_blocks - after.st_blocks) * 512;
}

}  // namespace launch::agent
