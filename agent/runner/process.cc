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
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/runner/small_files.h"
#include "common/exec_mark.h"

namespace launch::agent {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

// Without links, as far as it exists.
std::string AsTheKernelNamesIt(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

// An allocation's lock: by what its path names now, and by the path alone where the file is gone
// but still open somewhere. Nobody else's file ever had that path.
struct LockIdentity {
  explicit LockIdentity(const std::string& lock_path)
      : path(AsTheKernelNamesIt(lock_path)),
        exec_mark(std::string(kExecMark) + "=" + lock_path.substr(0, lock_path.rfind('/'))),
        found(::stat(lock_path.c_str(), &info) == 0) {}
  const std::string path;
  const std::string exec_mark;
  struct stat info {};
  bool found;
};

std::string TargetOf(const std::string& fd) {
  char text[4096];
  const ssize_t size = ::readlink(fd.c_str(), text, sizeof text);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

std::string_view NameOf(std::string_view path) {
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.substr(path.rfind('/') + 1);
}

// What a descriptor was opened as, where that file has no name any more; or empty.
std::string DeletedPathOf(std::string target, const struct stat& info) {
  if (info.st_nlink > 0 || !S_ISREG(info.st_mode) || !target.ends_with(kDeleted)) return {};
  target.resize(target.size() - kDeleted.size());
  return target;
}

// Calls `look` with each descriptor's path below /proc and what it names until it returns true.
// stat() of a foreign file may never return, as where its file server is gone: `look` asks for the
// facts of those alone whose name can be ours.
template <class Look>
bool AnyDescriptor(int pid, Look look) {
  const std::string fds = "/proc/" + std::to_string(pid) + "/fd";
  DIR* directory = ::opendir(fds.c_str());
  if (directory == nullptr) return false;
  bool found = false;
  while (const dirent* entry = found ? nullptr : ::readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    const std::string fd = fds + "/" + entry->d_name;
    found = look(fd, TargetOf(fd));
  }
  ::closedir(directory);
  return found;
}

bool HoldsFile(int pid, const LockIdentity& lock) {
  return AnyDescriptor(pid, [&](const std::string& fd, const std::string& target) {
    struct stat info {};
    if (NameOf(target) != NameOf(lock.path) || ::stat(fd.c_str(), &info) != 0) return false;
    if (lock.found && info.st_dev == lock.info.st_dev && info.st_ino == lock.info.st_ino) {
      return true;
    }
    return DeletedPathOf(target, info) == lock.path;
  });
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

// "NAME=value", as the process was started with it; other users' cannot be read.
bool HasVariable(int pid, const std::string& variable) {
  const std::string bytes = ReadEnvironment("/proc/" + std::to_string(pid));
  const std::string_view text(bytes);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    if (text.substr(at, end - at) == variable) return true;
    at = end + 1;
  }
  return false;
}

// Real and effective, of /proc/PID/status; empty: it is gone. The owner of the directory would be
// root's where the process may not be dumped.
std::vector<std::uint32_t> UsersOf(int pid) {
  std::istringstream lines(ReadText("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Uid:")) continue;
    std::istringstream words(line.substr(4));
    std::vector<std::uint32_t> users(2);
    if (words >> users[0] >> users[1]) return users;
  }
  return {};
}

bool IsOwn(int pid, const LockIdentity& lock, const std::vector<int>& roots, const MayBeOwn& may) {
  if (may && std::ranges::none_of(UsersOf(pid), may)) return false;
  std::string state;
  StatOf(pid) >> state;
  if (state.empty() || state == "Z" || state == "X") return false;
  return HoldsFile(pid, lock) || DescendsFrom(pid, roots) || HasVariable(pid, lock.exec_mark);
}

// Numbers of all processes but this one.
std::vector<int> Others() {
  std::vector<int> pids;
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return pids;
  while (const dirent* entry = ::readdir(directory)) {
    const int pid = std::atoi(entry->d_name);
    if (pid > 1 && pid != ::getpid()) pids.push_back(pid);
  }
  ::closedir(directory);
  return pids;
}

// From whom an allocation's processes descend.
std::vector<int> LeadersOf(const LockIdentity& lock, const std::vector<int>& roots,
                           Holders holders) {
  std::vector<int> leaders = roots;
  if (holders == Holders::kAlone) return leaders;
  for (const int pid : Others()) {
    if (HoldsFile(pid, lock)) leaders.push_back(pid);
  }
  return leaders;
}

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

std::vector<int> FamilyOf(int pid) {
  std::multimap<int, int> children;
  bool found = false;
  for (const int other : Others()) {
    std::string state;
    int parent = 0;
    StatOf(other) >> state >> parent;
    children.emplace(parent, other);
    found = found || (other == pid && !state.empty());
  }
  std::vector<int> family;
  if (found) family.push_back(pid);
  for (std::size_t i = 0; i < family.size(); ++i) {
    const auto [first, last] = children.equal_range(family[i]);
    for (auto child = first; child != last; ++child) family.push_back(child->second);
  }
  return family;
}

bool IsOfUser(int pid, std::uint32_t uid) {
  return std::ranges::any_of(UsersOf(pid), [&](std::uint32_t user) { return user == uid; });
}

std::vector<int> FindOwn(const std::string& lock_path, const std::vector<int>& roots,
                         const MayBeOwn& may, Holders holders) {
  const LockIdentity lock(lock_path);
  const std::vector<int> leaders = LeadersOf(lock, roots, holders);
  std::vector<int> pids = Others();
  std::erase_if(pids, [&](int pid) { return !IsOwn(pid, lock, leaders, may); });
  return pids;
}

std::map<std::string, std::vector<int>> OpenBelow(const std::string& directory) {
  const std::string real = AsTheKernelNamesIt(directory);
  std::map<std::string, std::vector<int>> holders;
  for (const int pid : Others()) {
    (void)AnyDescriptor(pid, [&](const std::string& fd, std::string path) {
      struct stat info {};
      if (!path.starts_with(real + "/")) return false;
      if (::stat(fd.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
      if (info.st_nlink == 0 && path.ends_with(kDeleted))
        path.resize(path.size() - kDeleted.size());
      std::vector<int>& pids = holders[directory + path.substr(real.size())];
      if (pids.empty() || pids.back() != pid) pids.push_back(pid);
      return false;
    });
  }
  return holders;
}

void KillOwn(const std::string& lock_path, const std::vector<int>& roots,
             const std::vector<int>& spare, const MayBeOwn& may, Holders holders) {
  const LockIdentity lock(lock_path);
  std::vector<std::pair<int, UniqueFd>> found;
  for (const int pid : FindOwn(lock_path, roots, may, holders)) {
    if (std::find(spare.begin(), spare.end(), pid) != spare.end()) continue;
    if (UniqueFd process = OpenPidFd(pid)) found.emplace_back(pid, std::move(process));
  }
  // Who was just being started by this agent has closed the lock by now, and leads no more. All are
  // looked at before the first is killed: what loses its parent descends from nothing any more.
  const std::vector<int> leaders = LeadersOf(lock, roots, holders);
  std::erase_if(found, [&](const auto& one) { return !IsOwn(one.first, lock, leaders, may); });
  for (const auto& [pid, process] : found) SignalPidFd(process, SIGKILL);
}

bool HoldsOpen(int pid, const std::string& path) { return HoldsFile(pid, LockIdentity(path)); }

}  // namespace launch::agent
