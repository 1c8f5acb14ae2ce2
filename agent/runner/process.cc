#include "agent/runner/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "agent/runner/small_files.h"

namespace launch::agent {
namespace {

bool HoldsFile(const std::string& proc, const struct stat& file) {
  DIR* directory = ::opendir((proc + "/fd").c_str());
  if (directory == nullptr) return false;
  bool found = false;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    struct stat info {};
    if (::stat((proc + "/fd/" + entry->d_name).c_str(), &info) == 0 && info.st_dev == file.st_dev &&
        info.st_ino == file.st_ino) {
      found = true;
      break;
    }
  }
  ::closedir(directory);
  return found;
}

// From the third field of /proc/PID/stat on, behind the name, which may hold anything.
std::stringstream StatOf(int pid) {
  const std::string text = ReadText("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t after = text.rfind(')');
  return std::stringstream(after == std::string::npos ? std::string() : text.substr(after + 1));
}

// The process itself or one it descends from is in `roots`.
bool DescendsFrom(int pid, const std::vector<int>& roots) {
  constexpr int kDeepest = 1'000;
  for (int i = 0; i < kDeepest && pid > 1; ++i) {
    if (std::find(roots.begin(), roots.end(), pid) != roots.end()) return true;
    std::string state;
    int parent = 0;
    StatOf(pid) >> state >> parent;
    pid = parent;
  }
  return false;
}

bool IsOwn(int pid, const struct stat* lock, const std::vector<int>& roots) {
  std::string state;
  StatOf(pid) >> state;
  if (state.empty() || state == "Z" || state == "X") return false;
  if (lock != nullptr && HoldsFile("/proc/" + std::to_string(pid), *lock)) return true;
  return DescendsFrom(pid, roots);
}

struct LockIdentity {
  explicit LockIdentity(const std::string& path) : found(::stat(path.c_str(), &info) == 0) {}
  const struct stat* get() const { return found ? &info : nullptr; }
  struct stat info {};
  bool found;
};

}  // namespace

UniqueFd OpenPidFd(int pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void SignalPidFd(const UniqueFd& process, int signal) {
  (void)::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
}

bool HasEnded(const UniqueFd& process) {
  pollfd wait{process.get(), POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0;
}

std::uint64_t StartTicksOf(int pid) {
  std::stringstream fields = StatOf(pid);
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

std::vector<int> FindOwn(const std::string& lock_path, const std::vector<int>& roots) {
  std::vector<int> pids;
  const LockIdentity lock(lock_path);
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return pids;
  while (const dirent* entry = ::readdir(directory)) {
    const int pid = std::atoi(entry->d_name);
    if (pid > 1 && pid != ::getpid() && IsOwn(pid, lock.get(), roots)) pids.push_back(pid);
  }
  ::closedir(directory);
  return pids;
}

void KillOwn(const std::string& lock_path, const std::vector<int>& roots,
             const std::vector<int>& spare) {
  const LockIdentity lock(lock_path);
  // All are held before the first is killed: what loses its parent descends from nothing any more.
  std::vector<UniqueFd> found;
  for (const int pid : FindOwn(lock_path, roots)) {
    if (std::find(spare.begin(), spare.end(), pid) != spare.end()) continue;
    UniqueFd process = OpenPidFd(pid);
    if (process && IsOwn(pid, lock.get(), roots)) found.push_back(std::move(process));
  }
  for (const UniqueFd& process : found) SignalPidFd(process, SIGKILL);
}

bool HoldsOpen(int pid, const std::string& path) {
  const LockIdentity file(path);
  return file.found && HoldsFile("/proc/" + std::to_string(pid), file.info);
}

}  // namespace launch::agent
