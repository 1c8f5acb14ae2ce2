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

namespace launch::agent {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

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

bool IsMarked(int pid, const std::string& attempt_path, const struct stat* lock) {
  const std::string proc = "/proc/" + std::to_string(pid);
  const std::string stat_text = ReadText(proc + "/stat");
  const std::size_t after = stat_text.rfind(')');
  if (after == std::string::npos || after + 2 >= stat_text.size()) return false;
  const char state = stat_text[after + 2];
  if (state == 'Z' || state == 'X') return false;
  if (lock != nullptr && HoldsFile(proc, *lock)) return true;
  return ReadText(proc + "/environ").find(attempt_path + "/") != std::string::npos;
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
  const std::string text = ReadText("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t after = text.rfind(')');
  if (after == std::string::npos) return 0;
  std::stringstream fields(text.substr(after + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

std::vector<int> FindMarked(const std::string& attempt_path, const std::string& lock_path) {
  std::vector<int> pids;
  const LockIdentity lock(lock_path);
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return pids;
  while (const dirent* entry = ::readdir(directory)) {
    const int pid = std::atoi(entry->d_name);
    if (pid > 1 && pid != ::getpid() && IsMarked(pid, attempt_path, lock.get())) {
      pids.push_back(pid);
    }
  }
  ::closedir(directory);
  return pids;
}

void KillMarked(const std::string& attempt_path, const std::string& lock_path,
                const std::vector<int>& spare) {
  const LockIdentity lock(lock_path);
  for (const int pid : FindMarked(attempt_path, lock_path)) {
    if (std::find(spare.begin(), spare.end(), pid) != spare.end()) continue;
    const UniqueFd process = OpenPidFd(pid);
    if (process && IsMarked(pid, attempt_path, lock.get())) SignalPidFd(process, SIGKILL);
  }
}

bool HoldsOpen(int pid, const std::string& path) {
  const LockIdentity file(path);
  return file.found && HoldsFile("/proc/" + std::to_string(pid), file.info);
}

}  // namespace launch::agent
