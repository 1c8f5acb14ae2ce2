#include "agent/runner/kept_logs.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "common/free_space.h"
#include "common/units.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRemovedBytes = std::size_t{1} << 20;

struct KeptAttempt {
  Key key;
  std::string path;
  Millis age;  // since its logs came here
};

std::string LogsPath(const std::string& state_dir) { return state_dir + "/logs"; }
// A line an attempt whose logs were removed: "J.N WHY".
std::string RemovedPath(const std::string& state_dir) { return LogsPath(state_dir) + "/removed"; }

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
  std::ranges::stable_sort(kept, std::ranges::greater(), &KeptAttempt::age);
  return kept;
}

std::uint64_t DiskBytesBelow(const std::string& path) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info {};
    if (::lstat(at->path().c_str(), &info) == 0 && S_ISREG(info.st_mode))
      bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

// Whether the disk is full and these would make room, if they all went.
bool WouldMakeRoom(const std::vector<KeptAttempt>& kept, const LogSweep& sweep) {
  const auto free = FreeBytes(sweep.state_dir);
  if (!free || *free >= sweep.min_free_bytes) return false;
  std::uint64_t bytes = *free;
  for (const KeptAttempt& attempt : kept) {
    bytes += DiskBytesBelow(attempt.path);
    if (bytes >= sweep.min_free_bytes) return true;
  }
  return false;
}

bool IsFull(const LogSweep& sweep) {
  const auto free = FreeBytes(sweep.state_dir);
  return free && *free < sweep.min_free_bytes;
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

void NoteRemoved(const std::string& state_dir, const std::vector<RemovedLogs>& removed,
                 FileSystem& files) {
  if (removed.empty()) return;
  std::string text = ReadRemoved(state_dir);
  for (const RemovedLogs& one : removed) text += ToString(one.key) + " " + one.why + "\n";
  if (text.size() > kMostRemovedBytes) {
    const std::size_t line = text.find('\n', text.size() - kMostRemovedBytes);
    text.erase(0, line + 1);
  }
  (void)files.Write(RemovedPath(state_dir), text);
}

}  // namespace

Result<void> KeepLogs(const AttemptDir& dir, const std::string& kept, FileSystem& files) {
  const auto names = files.List(dir.path());
  if (!names && names.error().code == ErrorCode::kNotFound) return {};
  if (!names) return Unexpected(names.error());
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
    }
  }
  return {};
}

std::vector<RemovedLogs> SweepKeptLogs(const LogSweep& sweep, WallTime now, FileSystem& files,
                                       const std::atomic<bool>& cancel) {
  const std::vector<KeptAttempt> kept = ListKept(sweep, now, files);
  const bool for_room = WouldMakeRoom(kept, sweep);
  std::vector<RemovedLogs> removed;
  for (const KeptAttempt& attempt : kept) {
    const bool old = attempt.age > sweep.keep;
    if (cancel || (!old && !(for_room && IsFull(sweep)))) break;
    if (!files.RemoveTree(attempt.path)) continue;
    const std::string why = old ? "they were older than " + FormatDurationShort(sweep.keep)
                                : "the disk was nearly full";
    removed.push_back({attempt.key, "on " + Day(now) + ": " + why});
  }
  NoteRemoved(sweep.state_dir, removed, files);
  return removed;
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
