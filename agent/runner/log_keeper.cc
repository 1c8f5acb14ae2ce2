#include "agent/runner/log_keeper.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "agent/runner/record_file.h"
#include "agent/runner/small_files.h"
#include "common/file_system.h"
#include "common/unique_fd.h"

namespace launch::agent {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::array<const char*, 2> kStreams = {"/out", "/err"};

bool AppendTo(const std::string& path, const IndexEntry& entry) {
  const UniqueFd index(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  struct stat info {};
  if (!index || ::fstat(index.get(), &info) != 0) return false;
  // A full disk may have taken a part of one: what stood behind it would be misread.
  const off_t part = info.st_size % static_cast<off_t>(sizeof entry);
  if (part != 0 && ::ftruncate(index.get(), info.st_size - part) != 0) return false;
  return ::write(index.get(), &entry, sizeof entry) == static_cast<ssize_t>(sizeof entry);
}

// Of entries less than `apart` after another, the last.
std::vector<IndexEntry> Thin(const std::vector<IndexEntry>& entries, Millis apart) {
  std::vector<IndexEntry> kept;
  std::int64_t since = 0;
  for (const IndexEntry& entry : entries) {
    // Wall time may go back.
    if (!kept.empty() && std::abs(entry.wall_ms - since) < apart.count()) {
      kept.back() = entry;
    } else {
      kept.push_back(entry);
      since = entry.wall_ms;
    }
  }
  return kept;
}

void KeepShort(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size <= kMostIndexBytes) return;
  PosixFileSystem files;
  const auto bytes = files.Read(path, size);
  if (!bytes) return;
  std::vector<IndexEntry> entries(bytes->size() / sizeof(IndexEntry));
  std::memcpy(entries.data(), bytes->data(), entries.size() * sizeof(IndexEntry));
  for (Millis apart{2'000}; entries.size() * sizeof(IndexEntry) > kMostIndexBytes / 2; apart *= 2)
    entries = Thin(entries, apart);
  // Not synced: without it times are coarser, and no more. Without room it stays as long as it is.
  (void)files.Write(
      path, {reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(IndexEntry)});
}

std::optional<std::uint64_t> SizeOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(info.st_size);
}

}  // namespace

std::string IndexPath(const std::string& stream_path) { return stream_path + ".index"; }

std::uint64_t LastIndexed(const std::string& stream_path) {
  const UniqueFd index(::open(IndexPath(stream_path).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!index || ::fstat(index.get(), &info) != 0) return 0;
  const off_t whole = info.st_size / static_cast<off_t>(sizeof(IndexEntry));
  IndexEntry last;
  const bool read = whole > 0 && ::pread(index.get(), &last, sizeof last,
                                         (whole - 1) * static_cast<off_t>(sizeof last)) ==
                                     static_cast<ssize_t>(sizeof last);
  return read ? last.offset : 0;
}

std::string BasePath(const std::string& stream_path) { return stream_path + ".base"; }

std::uint64_t ReadLogBase(const std::string& stream_path) {
  const auto body = OpenBody(ReadText(BasePath(stream_path)));
  if (!body) return 0;
  RecordReader in(*body);
  const std::uint64_t base = in.TakeNumber();
  return in.ok() && in.AtEnd() ? base : 0;
}

std::uint64_t LogEnd(const std::string& stream_path) {
  return ReadLogBase(stream_path) + SizeOf(stream_path).value_or(0);
}

LogKeeper::LogKeeper(std::string directory, std::uint64_t cap_bytes)
    : directory_(std::move(directory)), cap_bytes_(cap_bytes) {
  for (std::size_t i = 0; i < kStreams.size(); ++i) {
    indexed_[i] = LastIndexed(directory_ + kStreams[i]);
    base_[i] = ReadLogBase(directory_ + kStreams[i]);
  }
}

std::uint64_t LogKeeper::Look(WallTime now) {
  std::uint64_t punched = 0;
  for (std::size_t i = 0; i < kStreams.size(); ++i) {
    const std::string path = directory_ + kStreams[i];
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) continue;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    SettleAt(i, path, size);
    const auto used = static_cast<std::uint64_t>(info.st_blocks) * 512;
    if (cap_bytes_ > 0 && used > cap_bytes_) punched += Punch(path, size, cap_bytes_);
    const std::uint64_t end = base_[i] + size;
    if (end <= indexed_[i]) continue;
    if (!AppendTo(IndexPath(path), {end, ToMs(now)})) continue;
    indexed_[i] = end;
    KeepShort(IndexPath(path));
  }
  return punched;
}

void LogKeeper::Settle() {
  for (std::size_t i = 0; i < kStreams.size(); ++i) {
    const std::string path = directory_ + kStreams[i];
    if (const auto size = SizeOf(path)) SettleAt(i, path, *size);
  }
}

void LogKeeper::SettleAt(std::size_t stream, const std::string& path, std::uint64_t size) {
  if (base_[stream] + size >= indexed_[stream]) return;
  const std::uint64_t base = indexed_[stream] + kLeapBytes;
  RecordWriter body;
  body.Put(base);
  // Not synced, as a job may do this every second, and a host that goes down ends the ranks too.
  // Not out of the agent's reserve, which is for stops; without room the next look tries again.
  if (!PosixFileSystem().Write(BasePath(path), SealBody(body.bytes()))) return;
  if (base_ == decltype(base_){}) emptied_ = indexed_[stream];
  base_[stream] = base;
}

std::uint64_t LogKeeper::TakeEmptied() { return std::exchange(emptied_, 0); }

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
