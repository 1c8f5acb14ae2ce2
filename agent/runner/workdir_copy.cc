#include "agent/runner/workdir_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>

#include "agent/runner/account_files.h"
#include "common/file_system.h"
#include "common/free_space.h"
#include "common/pki.h"
#include "common/snapshot.h"
#include "common/units.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCacheBytes = std::uint64_t{2} << 30;
constexpr std::uint64_t kCopyKeepsFree = std::uint64_t{256} << 20;
constexpr std::size_t kFetchedAtOnce = 4096;  // as many as the controller gives at once
// Begins the names of copies that are still being unpacked: ".part-JOB.ATTEMPT".
constexpr std::string_view kPart = ".part-";
constexpr auto kKeptFor = std::chrono::hours(7 * 24);

Unexpected Cancelled() { return Fail(ErrorCode::kConflict, "the staging was given up"); }

class Cache {
 public:
  Cache(const CopyWish& wish, const FetchChunks& fetch, const std::atomic<bool>& cancel)
      : all_(wish.state_dir + "/chunks"),
        dir_(all_ + "/" + (IsValidName(wish.user) ? wish.user : "unnamed")),
        incoming_(dir_ + "/.in-" + ToString(wish.key)),
        job_(wish.key.job),
        fetch_(fetch),
        cancel_(cancel) {}

  std::string PathOf(const std::string& digest) const {
    return dir_ + "/" + digest.substr(0, 2) + "/" + digest;
  }

  // Whole and right, or absent.
  Result<std::string> Read(const std::string& digest) {
    LAUNCH_ASSIGN_OR_RETURN(std::string bytes, files_.Read(PathOf(digest), kChunkBytes));
    if (Sha256Hex(bytes) == digest) return bytes;
    (void)::unlink(PathOf(digest).c_str());
    return Fail(ErrorCode::kDataLoss, PathOf(digest) + " was damaged");
  }

  Result<void> Write(const std::string& digest, std::string_view bytes) {
    if (Sha256Hex(bytes) != digest) {
      return Fail(ErrorCode::kDataLoss, "the controller sent other bytes than were asked for");
    }
    const std::string path = PathOf(digest);
    // Two jobs may fetch the same piece at once: each has a name of its own for it until it is
    // whole. Directories are made when they are missed: there may be 100,000 pieces.
    const std::string part = incoming_ + "/" + digest;
    if (!files_.Write(part, bytes)) {
      LAUNCH_RETURN_IF_ERROR(files_.MakeDirs(incoming_));
      LAUNCH_RETURN_IF_ERROR(files_.Write(part, bytes));
    }
    if (::rename(part.c_str(), path.c_str()) == 0) return {};
    LAUNCH_RETURN_IF_ERROR(files_.MakeDirs(fs::path(path).parent_path().string()));
    if (::rename(part.c_str(), path.c_str()) != 0) return FailErrno("rename to " + path, errno);
    return {};
  }

  // Fetches what is missing of them. A few thousand at a time: there may be 100,000.
  Result<void> Ensure(const std::vector<std::string>& digests) {
    for (const std::string& digest : digests) LAUNCH_RETURN_IF_ERROR(Want(digest));
    return FetchWanted();
  }
  // Fetched with the next others, or by FetchWanted.
  Result<void> Want(const std::string& digest) {
    if (::access(PathOf(digest).c_str(), R_OK) == 0) {
      (void)::utimensat(AT_FDCWD, PathOf(digest).c_str(), nullptr, 0);
      return {};
    }
    wanted_.insert(digest);
    return wanted_.size() < kFetchedAtOnce ? Result<void>() : FetchWanted();
  }
  Result<void> FetchWanted() {
    if (cancel_) return Cancelled();
    if (wanted_.empty()) return {};
    const std::vector<std::string> some(wanted_.begin(), wanted_.end());
    wanted_.clear();
    return fetch_(
        job_, some,
        [this](const std::string& digest, std::string_view bytes) { return Write(digest, bytes); },
        cancel_);
  }

  // The oldest go until the rest is small enough.
  void Trim() {
    (void)files_.RemoveTree(incoming_);
    if (Total() <= kCacheBytes) return;  // as nearly always: no list of them all
    struct Piece {
      fs::file_time_type used;
      std::uint64_t bytes;
      fs::path path;
    };
    std::vector<Piece> pieces;
    std::uint64_t total = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator at(all_, error), end; !error && at != end;
         at.increment(error)) {
      std::error_code ignored;
      if (!at->is_regular_file(ignored)) continue;
      pieces.push_back({at->last_write_time(ignored), at->file_size(ignored), at->path()});
      total += pieces.back().bytes;
    }
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.used < b.used; });
    for (const Piece& piece : pieces) {
      if (total <= kCacheBytes) return;
      std::error_code ignored;
      fs::remove(piece.path, ignored);
      total -= piece.bytes;
    }
  }

 private:
  std::uint64_t Total() const {
    std::uint64_t total = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator at(all_, error), end; !error && at != end;
         at.increment(error)) {
      std::error_code ignored;
      if (at->is_regular_file(ignored)) total += at->file_size(ignored);
    }
    return total;
  }

  const std::string all_;  // of every user
  const std::string dir_;
  const std::string incoming_;
  const JobId job_;
  const FetchChunks& fetch_;
  const std::atomic<bool>& cancel_;
  PosixFileSystem files_;
  std::set<std::string> wanted_;
};

// The text of the manifest named by the root.
Result<std::string> FetchManifest(const std::string& root, Cache& cache) {
  LAUNCH_RETURN_IF_ERROR(cache.Ensure({root}));
  LAUNCH_ASSIGN_OR_RETURN(const std::string text, cache.Read(root));
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<std::string> pieces, ParseRoot(text));
  LAUNCH_RETURN_IF_ERROR(cache.Ensure(pieces));
  std::string manifest;
  for (const std::string& piece : pieces) {
    LAUNCH_ASSIGN_OR_RETURN(const std::string part, cache.Read(piece));
    manifest += part;
  }
  return manifest;
}

Result<void> CheckRoom(const std::string& dir, std::uint64_t needed) {
  LAUNCH_ASSIGN_OR_RETURN(const std::uint64_t free, FreeBytes(dir));
  if (free >= needed + kCopyKeepsFree) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "the copy of workdir needs " + FormatBytes(needed) + " below " + dir + ", " +
                  FormatBytes(free) + " are free",
              "free space there, or set state_dir in agent.yaml to a larger disk");
}

Result<void> WriteFile(const std::string& path, const SnapshotEntry& entry, Cache& cache) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           entry.executable ? 0755 : 0644));
  if (!fd) return FailErrno("create " + path, errno);
  std::uint64_t written = 0;
  for (const std::string& digest : entry.chunks) {
    LAUNCH_ASSIGN_OR_RETURN(const std::string bytes, cache.Read(digest));
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t got = ::write(fd.get(), bytes.data() + at, bytes.size() - at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FailErrno("write " + path, errno);
      at += static_cast<std::size_t>(got);
    }
    written += bytes.size();
  }
  if (written == entry.size) return {};
  return Fail(ErrorCode::kDataLoss, path + " has another size than the manifest says");
}

Result<void> Make(const SnapshotEntry& entry, const std::string& path, Cache& cache) {
  switch (entry.kind) {
    case SnapshotKind::kDirectory:
      if (::mkdir(path.c_str(), 0755) != 0) return FailErrno("mkdir " + path, errno);
      break;
    case SnapshotKind::kLink:
      if (::symlink(entry.target.c_str(), path.c_str()) != 0)
        return FailErrno("symlink " + path, errno);
      break;
    case SnapshotKind::kFile:
      return WriteFile(path, entry, cache);
  }
  return {};
}

Result<void> Unpack(const std::string& manifest, const std::string& into, Cache& cache,
                    const std::atomic<bool>& cancel) {
  PosixFileSystem files;
  LAUNCH_RETURN_IF_ERROR(files.RemoveTree(into));
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(into));
  return VisitManifest(manifest, [&](const SnapshotEntry& entry) -> Result<void> {
    if (cancel) return Cancelled();
    return Make(entry, into + "/" + entry.path, cache);
  });
}

Result<std::uint64_t> BytesOf(const std::string& manifest) {
  std::uint64_t bytes = 0;
  LAUNCH_RETURN_IF_ERROR(VisitManifest(manifest, [&](const SnapshotEntry& entry) -> Result<void> {
    bytes += entry.size;
    return {};
  }));
  return bytes;
}

// Every piece of every file is here.
Result<void> FetchPieces(const std::string& manifest, Cache& cache) {
  const auto want = [&](const SnapshotEntry& entry) -> Result<void> {
    for (const std::string& digest : entry.chunks) LAUNCH_RETURN_IF_ERROR(cache.Want(digest));
    return {};
  };
  LAUNCH_RETURN_IF_ERROR(VisitManifest(manifest, want));
  return cache.FetchWanted();
}

// Copies of jobs that ended long ago, and what an interrupted unpacking left.
void SweepCopies(const std::string& work, const std::vector<JobId>& live) {
  const auto lives = [&](const std::string& name, char after) {
    return std::ranges::any_of(
        live, [&](JobId job) { return name.starts_with(std::to_string(job.value) + after); });
  };
  std::error_code error;
  std::vector<fs::path> old;
  std::vector<fs::path> parts;
  for (fs::directory_iterator at(work, error), end; !error && at != end; at.increment(error)) {
    const fs::path used = at->path();
    const std::string file = used.filename().string();
    if (file.starts_with(kPart) && !lives(file.substr(kPart.size()), '.')) parts.push_back(used);
    if (used.extension() != ".used") continue;
    std::error_code ignored;
    const auto age = fs::file_time_type::clock::now() - at->last_write_time(ignored);
    if (!lives(used.stem().string(), '-') && age > kKeptFor) old.push_back(used);
  }
  PosixFileSystem files;
  for (const fs::path& part : parts) (void)files.RemoveTree(part.string());
  for (const fs::path& used : old) {
    fs::path copy = used;
    copy.replace_extension();
    if (!files.RemoveTree(copy.string())) continue;
    std::error_code ignored;
    fs::remove(used, ignored);
  }
}

std::string WorkPath(const std::string& state_dir) { return state_dir + "/work"; }

bool IsPathByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '/';
}

}  // namespace

void NoteCopyUse(const std::string& directory) {
  const std::string note = directory + ".used";
  const UniqueFd fd(::open(note.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd) (void)::futimens(fd.get(), nullptr);
}

std::string CopyPath(const std::string& state_dir, JobId job, const std::string& root) {
  return WorkPath(state_dir) + "/" + std::to_string(job.value) + "-" + root.substr(0, 12);
}

Result<std::string> MakeCopy(const CopyWish& wish, const FetchChunks& fetch,
                             const std::atomic<bool>& cancel) {
  if (!fetch) return Fail(ErrorCode::kUnimplemented, "this agent cannot fetch copies");
  const std::string work = WorkPath(wish.state_dir);
  PosixFileSystem files;
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(work));
  const std::string copy = CopyPath(wish.state_dir, wish.key.job, wish.root);
  NoteCopyUse(copy);
  SweepCopies(work, wish.live_jobs);
  std::error_code error;
  if (fs::is_directory(copy, error)) return copy;
  Cache cache(wish, fetch, cancel);
  LAUNCH_ASSIGN_OR_RETURN(const std::string manifest, FetchManifest(wish.root, cache));
  LAUNCH_ASSIGN_OR_RETURN(const std::uint64_t bytes, BytesOf(manifest));
  LAUNCH_RETURN_IF_ERROR(CheckRoom(work, 2 * bytes));
  const std::string part = work + "/" + std::string(kPart) + ToString(wish.key);
  // Once more: another job's trimming may have taken pieces from under this one.
  Result<void> unpacked;
  for (int round = 0; round < 2; ++round) {
    LAUNCH_RETURN_IF_ERROR(FetchPieces(manifest, cache));
    unpacked = Unpack(manifest, part, cache, cancel);
    if (unpacked || unpacked.error().code != ErrorCode::kNotFound) break;
  }
  if (!unpacked) {
    (void)files.RemoveTree(part);
    return Unexpected(std::move(unpacked).error());
  }
  cache.Trim();
  if (wish.account) LAUNCH_RETURN_IF_ERROR(GiveTree(part, *wish.account));
  // After a power cut the name must not be there with empty files below it.
  const UniqueFd dir(::open(part.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || ::syncfs(dir.get()) != 0) return FailErrno("sync " + part, errno);
  if (::rename(part.c_str(), copy.c_str()) != 0) return FailErrno("rename to " + copy, errno);
  return copy;
}

std::string WithPathReplaced(const std::string& text, const std::string& from,
                             const std::string& to) {
  std::string result;
  std::size_t at = 0;
  for (;;) {
    const std::size_t found = text.find(from, at);
    if (found == std::string::npos) return result + text.substr(at);
    const std::size_t end = found + from.size();
    const bool starts = found == 0 || !IsPathByte(text[found - 1]);
    const bool ends = end == text.size() || text[end] == '/' || !IsPathByte(text[end]);
    result += text.substr(at, found - at) + (starts && ends ? to : from);
    at = end;
  }
}

AllocationSpec InCopy(AllocationSpec spec, const std::string& copy) {
  const std::string from = spec.workdir;
  const auto move = [&](std::string& text) {
    if (from != "/") text = WithPathReplaced(text, from, copy);
  };
  for (std::string* text : {&spec.interpreter, &spec.interpreter_of, &spec.command_word,
                            &spec.script, &spec.checkpoint_dir, &spec.setup}) {
    move(*text);
  }
  if (spec.container) {
    for (Mount& mount : spec.container->mounts) move(mount.source);
  }
  for (RankSpec& rank : spec.ranks) {
    for (std::string& word : rank.argv) move(word);
    for (EnvVar& variable : rank.env) {
      // Where the job was submitted from is a fact, not a place to work in.
      if (variable.name != "LAUNCH_SUBMIT_DIR") move(variable.value);
    }
  }
  spec.workdir = copy;
  return spec;
}

}  // namespace launch::agent
