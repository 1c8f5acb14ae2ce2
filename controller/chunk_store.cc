#include "controller/chunk_store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "common/file_system.h"
#include "common/free_space.h"
#include "common/pki.h"
#include "common/quoted.h"
#include "common/snapshot.h"
#include "common/units.h"

namespace launch::controller {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kKeptFree = std::uint64_t{512} << 20;  // for the store of jobs beside it

Result<void> CheckFree(const std::string& dir) {
  LAUNCH_ASSIGN_OR_RETURN(const std::uint64_t free, FreeBytes(dir));
  if (free >= kKeptFree) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "the controller keeps no more copies of working directories: " + FormatBytes(free) +
                  " are free below " + dir,
              "free space on the controller's disk, or run in place from a shared file system");
}

// What a file takes of the disk, its directory entry and inode not counted.
std::uint64_t Blocks(std::uint64_t size) {
  constexpr std::uint64_t kBlock = 4'096;
  return (size + kBlock - 1) / kBlock * kBlock;
}

std::uint64_t BlocksBelow(const std::string& dir) {
  std::uint64_t blocks = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(dir, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;
    const std::uint64_t size = at->file_size(ignored);
    if (!ignored) blocks += Blocks(size);
  }
  return blocks;
}

}  // namespace

// User names have no '/' and begin with no '.' (IsValidName).
std::string ChunkStore::PathOf(const UserName& user, const std::string& digest) const {
  return dir_ + "/" + user.value + "/" + digest.substr(0, 2) + "/" + digest;
}

Result<std::vector<std::string>> ChunkStore::Missing(
    const UserName& user, const std::vector<std::pair<std::string, std::uint32_t>>& wanted) {
  std::vector<std::string> missing;
  for (const auto& [digest, size] : wanted) {
    if (!IsDigest(digest)) {
      return Fail(ErrorCode::kInvalidArgument, "a piece has a name that is no SHA-256");
    }
    const std::string path = PathOf(user, digest);
    struct stat info {};
    // After a power cut a file may be there and shorter than it was.
    if (::stat(path.c_str(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) != size) {
      missing.push_back(digest);
    } else {
      (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    }
  }
  if (!missing.empty() || wanted.empty()) return missing;
  LAUNCH_RETURN_IF_ERROR(MakeDurable());
  return missing;
}

Result<void> ChunkStore::MakeDurable() {
  const MutexLock one(syncing_);
  std::uint64_t written = 0;
  {
    const MutexLock lock(mutex_);
    if (writing_ == 0 && synced_ == written_) return {};
    written = written_;
  }
  const UniqueFd dir(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || ::syncfs(dir.get()) != 0) return FailErrno("sync " + dir_, errno);
  const MutexLock lock(mutex_);
  synced_ = written;
  return {};
}

Result<void> ChunkStore::Charge(const UserName& user, std::uint64_t more, std::uint64_t less) {
  const MutexLock lock(mutex_);
  auto found = used_.find(user);
  if (found == used_.end()) found = used_.emplace(user, BlocksBelow(dir_ + "/" + user.value)).first;
  const std::uint64_t then = found->second - std::min(found->second, less) + more;
  if (more > less && then > most_) {
    return Fail(ErrorCode::kResourceExhausted,
                "the controller keeps " + FormatBytes(found->second) +
                    " of copies of working directories for " + user.value + "; a user may have " +
                    FormatBytes(most_) + " (max_copies_of_a_user)",
                "they go a day after their jobs end; leave files out (.launchignore), or run in "
                "place from a shared file system");
  }
  found->second = then;
  return {};
}

Result<void> ChunkStore::Put(const UserName& user, std::string_view bytes) {
  if (bytes.empty() || bytes.size() > kChunkBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a piece has " + std::to_string(bytes.size()) +
                                                 " bytes; 1 to " + std::to_string(kChunkBytes) +
                                                 " are allowed");
  }
  const std::string path = PathOf(user, Sha256Hex(bytes));
  struct stat info {};
  const bool there = ::stat(path.c_str(), &info) == 0;
  const std::uint64_t more = Blocks(bytes.size());
  const std::uint64_t less = there ? Blocks(static_cast<std::uint64_t>(info.st_size)) : 0;
  {
    const MutexLock lock(mutex_);
    ++writing_;
  }
  Result<void> done = Charge(user, more, less);
  const bool charged = done.has_value();
  if (charged) done = Write(path, bytes);
  if (charged && !done) (void)Charge(user, less, more);
  const MutexLock lock(mutex_);
  --writing_;
  written_ += charged ? 1 : 0;
  return done;
}

Result<void> ChunkStore::Write(const std::string& path, std::string_view bytes) const {
  PosixFileSystem files;
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(fs::path(path).parent_path().string()));
  LAUNCH_RETURN_IF_ERROR(CheckFree(dir_));
  return files.Write(path, bytes);
}

Result<std::string> ChunkStore::Get(const UserName& user, const std::string& digest) const {
  if (!IsDigest(digest)) return Fail(ErrorCode::kInvalidArgument, "no SHA-256: " + digest);
  const std::string path = PathOf(user, digest);
  PosixFileSystem files;
  auto bytes = files.Read(path, kChunkBytes);
  if (!bytes && bytes.error().code != ErrorCode::kNotFound) return bytes;
  if (!bytes) {
    return Fail(
        ErrorCode::kNotFound,
        "the controller no longer has piece " + digest.substr(0, 12) + " of the copied directory",
        "submit the job again: what is missing is sent again");
  }
  if (Sha256Hex(*bytes) == digest) return bytes;
  (void)::unlink(path.c_str());
  return Fail(ErrorCode::kDataLoss, path + " is damaged and was removed",
              "submit the job again: what is missing is sent again");
}

Result<void> ChunkStore::AddNeeded(const OwnedSnapshot& snapshot,
                                   std::set<std::string>& needed) const {
  const auto lost = [](const Error& error) {
    return error.code == ErrorCode::kNotFound || error.code == ErrorCode::kDataLoss;
  };
  const auto add = [&](const std::string& digest) { needed.insert(PathOf(snapshot.user, digest)); };
  add(snapshot.root);
  const auto text = Get(snapshot.user, snapshot.root);
  if (!text) return lost(text.error()) ? Result<void>() : Unexpected(text.error());
  const auto pieces = ParseRoot(*text);
  if (!pieces) return {};
  std::ranges::for_each(*pieces, add);
  std::string manifest;
  for (const std::string& piece : *pieces) {
    const auto part = Get(snapshot.user, piece);
    if (!part) return lost(part.error()) ? Result<void>() : Unexpected(part.error());
    manifest += *part;
  }
  const auto entries = ParseManifest(manifest);
  if (!entries) return {};
  for (const SnapshotEntry& entry : *entries) std::ranges::for_each(entry.chunks, add);
  return {};
}

Result<std::uint64_t> ChunkStore::Sweep(const std::set<OwnedSnapshot>& snapshots, WallTime now) {
  std::set<std::string> needed;
  std::set<std::string> left_alone;  // folders of users
  for (const OwnedSnapshot& snapshot : snapshots) {
    const auto added = AddNeeded(snapshot, needed);
    if (added || !left_alone.insert(snapshot.user.value).second) continue;
    spdlog::warn("chunks.not_swept user={} why={}", snapshot.user.value,
                 Quoted(added.error().message));
  }
  std::uint64_t written = 0;
  {
    const MutexLock lock(mutex_);
    written = written_;
  }
  std::map<UserName, std::uint64_t> used;
  std::uint64_t removed = 0;
  std::error_code error;
  UserName user;
  for (fs::recursive_directory_iterator at(dir_, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at.depth() == 0) user = UserName{at->path().filename().string()};
    if (at.depth() == 0 && left_alone.contains(at->path().filename().string())) {
      at.disable_recursion_pending();
      continue;
    }
    struct stat info {};
    if (!at->is_regular_file(ignored) || ::stat(at->path().c_str(), &info) != 0) continue;
    const WallTime last{Millis(std::int64_t{info.st_mtim.tv_sec} * 1000)};
    const bool stays = now - last < kCopyKept || needed.contains(at->path().string());
    if (!stays && fs::remove(at->path(), ignored)) {
      ++removed;
    } else {
      used[user] += Blocks(static_cast<std::uint64_t>(info.st_size));
    }
  }
  {
    const MutexLock lock(mutex_);
    const bool all = !error && writing_ == 0 && written == written_;
    used_ = all ? std::move(used) : decltype(used_)();  // else counted when they are asked for
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Fail(ErrorCode::kIo, "cannot list " + dir_ + ": " + error.message());
  }
  return removed;
}

}  // namespace launch::controller
