#include "agent/runner/kept_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "common/free_space.h"
#include "common/unique_fd.h"
#include "common/units.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRemovedBytes = std::size_t{1} << 20;
// By how much wall time may go ahead of boot time, or fall behind, from one sweep to the next.
constexpr Millis kMostDrift{60'000};
// Behind the name of an attempt whose logs are being removed.
constexpr std::string_view kGoing = ".going";

struct KeptAttempt {
  Key key;
  std::string path;
  Millis age;  // since its logs came here
};

std::string LogsPath(const std::string& state_dir) { return state_dir + "/logs"; }
// A line an attempt whose logs were removed: "J.N WHY".
std::string RemovedPath(const std::string& state_dir) { return LogsPath(state_dir) + "/removed"; }

void BeginAge(const std::string& path, WallTime now) {
  const timespec time{.tv_sec = ToMs(now) / 1000, .tv_nsec = ToMs(now) % 1000 * 1'000'000};
  const timespec both[2] = {time, time};
  (void)::utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW);
}

bool Jumped(const SweepSeen& before, WallTime wall, BootTime boot) {
  return std::chrono::abs((wall - before.wall) - (boot - before.boot)) > kMostDrift;
}

// The oldest first.
std::vector<KeptAttempt> ListKept(const LogSweep& sweep, WallTime now, FileSystem& files) {
  std::vector<KeptAttempt> kept;
  const std::string logs = LogsPath(sweep.state_dir);
  for (const std::string& name : files.List(logs).value_or(std::vector<std::string>())) {
    const auto key = ParseKey(name);
    struct stat info {};
    const std::string path = logs + "/" + name;
    if (!key || sweep.known.contains(*key) || ::lstat(path.c_str(), &info) != 0) continue;
    const WallTime since = WallMs(static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000);
    kept.push_back({*key, path, now - since});
  }
  std::ranges::sort(kept, [](const KeptAttempt& a, const KeptAttempt& b) {
    return a.age != b.age ? a.age > b.age : a.key < b.key;
  });
  return kept;
}

// That its removal gives back: what has another name besides stays.
std::uint64_t DiskBytesBelow(const std::string& path) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info {};
    if (::lstat(at->path().c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1)
      bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

// Whether these would do, if they all went.
bool WouldMakeRoom(const std::vector<KeptAttempt>& kept, std::uint64_t free, std::uint64_t wanted) {
  for (auto attempt = kept.begin(); free < wanted; ++attempt) {
    if (attempt == kept.end()) return false;
    free += DiskBytesBelow(attempt->path);
  }
  return true;
}

std::string Day(WallTime when) {
  const std::time_t seconds = ToMs(when) / 1000;
  std::tm parts{};
  std::string text(10, '\0');
  if (::gmtime_r(&seconds, &parts) == nullptr) return "an unknown day";
  (void)std::strftime(text.data(), text.size() + 1, "%Y-%m-%d", &parts);
  return text;
}

std::string ReadRemoved(const std::string& state_dir) {
  std::ifstream in(RemovedPath(state_dir), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Synced, so that it stands there before the logs go.
bool NoteRemoved(const std::string& state_dir, const RemovedLogs& removed, FileSystem& files) {
  const UniqueFd fd(::open(RemovedPath(state_dir).c_str(),
                           O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return false;
  char last = '\n';
  if (info.st_size > 0) (void)!::pread(fd.get(), &last, 1, info.st_size - 1);
  // A full disk may have taken a part of a line.
  const std::string line =
      (last == '\n' ? "" : "\n") + ToString(removed.key) + " " + removed.why + "\n";
  return ::write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
         ::fdatasync(fd.get()) == 0 && files.SyncDir(LogsPath(state_dir));
}

// The newest lines. What cannot be read stays as it is.
void ShortenRemoved(const std::string& state_dir, FileSystem& files) {
  const auto text = files.Read(RemovedPath(state_dir), 64 * kMostRemovedBytes);
  if (!text || text->size() <= kMostRemovedBytes) return;
  const std::size_t line = text->find('\n', text->size() - kMostRemovedBytes / 2);
  if (line != std::string::npos)
    (void)files.WriteDurable(RemovedPath(state_dir), text->substr(line + 1));
}

// An agent that ends midway leaves the note and a name that nobody lists.
bool Remove(const KeptAttempt& attempt, const RemovedLogs& removed, const LogSweep& sweep,
            FileSystem& files) {
  const bool noted = NoteRemoved(sweep.state_dir, removed, files);
  const std::string going = attempt.path + std::string(kGoing);
  if (std::rename(attempt.path.c_str(), going.c_str()) != 0) return false;
  (void)files.RemoveTree(going);
  if (!noted) (void)NoteRemoved(sweep.state_dir, removed, files);  // there was no room for it
  return true;
}

// What an earlier sweep could not remove to its end.
void RemoveGoing(const std::string& state_dir, FileSystem& files) {
  const std::string logs = LogsPath(state_dir);
  for (const std::string& name : files.List(logs).value_or(std::vector<std::string>())) {
    const bool going = name.ends_with(kGoing) &&
                       ParseKey(std::string_view(name).substr(0, name.size() - kGoing.size()));
    if (going) (void)files.RemoveTree(logs + "/" + name);
  }
}

}  // namespace

Result<void> KeepLogs(const AttemptDir& dir, const std::string& kept, WallTime now,
                      FileSystem& files) {
  const auto names = files.List(dir.path());
  if (!names && names.error().code == ErrorCode::kNotFound) return {};
  if (!names) return Unexpected(names.error());
  bool moved = false;
  for (const std::string& name : *names) {
    if (!name.starts_with("rank.")) continue;
    for (const char* const log :
         {"/out", "/err", "/out.index", "/err.index", "/out.base", "/err.base"}) {
      const std::string from = dir.path() + "/" + name + log;
      struct stat info {};
      if (::lstat(from.c_str(), &info) != 0 && errno == ENOENT) continue;
      LAUNCH_RETURN_IF_ERROR(files.MakeDirs(kept + "/" + name));
      if (std::rename(from.c_str(), (kept + "/" + name + log).c_str()) != 0)
        return FailErrno("rename " + from + " to " + kept, errno);
      moved = true;
    }
  }
  if (moved) BeginAge(kept, now);
  return {};
}

Result<void> CheckLogsMove(const std::string& state_dir, FileSystem& files) {
  const std::string logs = LogsPath(state_dir);
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(logs));
  // The kernel compares the mounts before it looks for the name, which is not there.
  const std::string absent = AllocationsPath(state_dir) + "/.absent";
  if (std::rename(absent.c_str(), (logs + "/.absent").c_str()) == 0 || errno != EXDEV) return {};
  return Fail(ErrorCode::kFailedPrecondition,
              logs + " is on another file system than " + AllocationsPath(state_dir) +
                  ": the logs of ended jobs could not be moved there",
              "have both on one, as by a state_dir on the larger disk");
}

SweptLogs SweepKeptLogs(const LogSweep& sweep, WallTime wall, BootTime boot, FileSystem& files,
                        const std::atomic<bool>& cancel) {
  RemoveGoing(sweep.state_dir, files);
  SweptLogs swept{.removed = {}, .seen = {.wall = wall, .boot = boot, .old = {}}};
  std::vector<KeptAttempt> kept = ListKept(sweep, wall, files);
  if (sweep.before && Jumped(*sweep.before, wall, boot)) {
    // Nobody knows how old they are.
    for (const KeptAttempt& attempt : kept) BeginAge(attempt.path, wall);
    kept = ListKept(sweep, wall, files);
  }
  const auto is_full = [&] {
    const auto free = FreeBytes(sweep.state_dir);
    return free && *free < sweep.min_free_bytes;
  };
  // What was removed is added up: not every file system says at once that it is free.
  std::uint64_t free = FreeBytes(sweep.state_dir).value_or(sweep.min_free_bytes);
  const bool for_room = WouldMakeRoom(kept, free, sweep.min_free_bytes);
  for (const KeptAttempt& attempt : kept) {
    const bool old = attempt.age > sweep.keep;
    const bool due = old && sweep.before && sweep.before->old.contains(attempt.key);
    if (old) swept.seen.old.insert(attempt.key);
    if (cancel) break;
    if (!due && !(for_room && free < sweep.min_free_bytes && is_full())) continue;
    const std::string why = due ? "they were older than " + FormatDurationShort(sweep.keep)
                                : "the disk was nearly full";
    const RemovedLogs removed{attempt.key, "on " + Day(wall) + ": " + why};
    const std::uint64_t bytes = DiskBytesBelow(attempt.path);
    if (!Remove(attempt, removed, sweep, files)) continue;
    free += bytes;
    swept.removed.push_back(removed);
  }
  if (!swept.removed.empty()) ShortenRemoved(sweep.state_dir, files);
  swept.room = free >= sweep.min_free_bytes;
  return swept;
}

std::string WhyLogsRemoved(const std::string& state_dir, const Key& key) {
  const std::string text = "\n" + ReadRemoved(state_dir);
  const std::string line = "\n" + ToString(key) + " ";
  const std::size_t at = text.rfind(line);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + line.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace launch::agent
