#include "agent/runner/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
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

// What a descriptor's file is numbered as, told without a question to its file system; absent: the
// kernel does not tell (before Linux 5.14).
std::optional<std::uint64_t> InodeOf(int pid, const std::string& descriptor) {
  std::istringstream lines(ReadText("/proc/" + std::to_string(pid) + "/fdinfo/" + descriptor));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("ino:")) return std::strtoull(line.c_str() + 4, nullptr, 10);
  }
  return std::nullopt;
}

// Facts of what a path below /proc leads to, as the kernel has them by now: a file server that is
// gone, or a user's own that does not answer, is not waited for.
std::optional<struct statx> KnownFacts(const std::string& path) {
  struct statx facts {};
  const int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
  if (::statx(AT_FDCWD, path.c_str(), flags, STATX_BASIC_STATS, &facts) != 0) return std::nullopt;
  return facts;
}

// An allocation's lock: by what its path names now, and by the path alone where the file is gone
// but still open somewhere. Nobody else's file ever had that path.
struct LockIdentity {
  explicit LockIdentity(const std::string& lock_path)
      : path(AsTheKernelNamesIt(lock_path)),
        exec_mark(std::string(kExecMark) + "=" + lock_path.substr(0, lock_path.rfind('/'))),
        facts(KnownFacts(lock_path)) {
    const UniqueFd own(::open(lock_path.c_str(), O_PATH | O_CLOEXEC));
    if (own) inode = InodeOf(::getpid(), std::to_string(own.get()));
  }
  const std::string path;
  const std::string exec_mark;
  const std::optional<struct statx> facts;
  std::optional<std::uint64_t> inode;  // as InodeOf tells it
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
std::string DeletedPathOf(std::string target, const struct statx& facts) {
  if (facts.stx_nlink > 0 || !S_ISREG(facts.stx_mode) || !target.ends_with(kDeleted)) return {};
  target.resize(target.size() - kDeleted.size());
  return target;
}

// Calls `look` with the number of each descriptor and what it names until it returns true. Facts of
// a foreign file may never come, as where its file server is gone: `look` asks for those of files
// alone that can be ours.
template <class Look>
bool AnyDescriptor(int pid, Look look) {
  const std::string fds = "/proc/" + std::to_string(pid) + "/fd";
  DIR* directory = ::opendir(fds.c_str());
  if (directory == nullptr) return false;
  bool found = false;
  while (const dirent* entry = found ? nullptr : ::readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    const std::string number = entry->d_name;
    found = look(number, TargetOf(fds + "/" + number));
  }
  ::closedir(directory);
  return found;
}

std::optional<struct statx> KnownFacts(int pid, const std::string& descriptor) {
  return KnownFacts("/proc/" + std::to_string(pid) + "/fd/" + descriptor);
}

// By its number first: even a question without an answer of the server may wait for NFS.
bool HoldsFile(int pid, const LockIdentity& lock) {
  return AnyDescriptor(pid, [&](const std::string& descriptor, const std::string& target) {
    if (NameOf(target) != NameOf(lock.path)) return false;
    if (target == lock.path + std::string(kDeleted)) {
      const auto facts = KnownFacts(pid, descriptor);
      if (facts && DeletedPathOf(target, *facts) == lock.path) return true;
    }
    if (!lock.facts) return false;
    const auto inode = lock.inode ? InodeOf(pid, descriptor) : std::nullopt;
    if (inode && *inode != *lock.inode) return false;
    const auto facts = KnownFacts(pid, descriptor);
    return facts && facts->stx_dev_major == lock.facts->stx_dev_major &&
           facts->stx_dev_minor == lock.facts->stx_dev_minor &&
           facts->stx_ino == lock.facts->stx_ino;
  });
}

// From the third field of /proc/PID/stat on, behind the name, which may hold anything.
std::stringstream StatOf(int pid) {
  const std::string text = ReadText("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t after = text.rfind(')');
  return std::stringstream(after == std::string::npos ? std::string() : text.substr(after + 1));
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

struct SeenProcess {
  int parent = 0;
  bool lives = false;
  bool may = false;    // its user's processes can be the allocation's
  bool holds = false;  // the lock
};

// One walk over /proc: all that an answer is made of is as old.
std::map<int, SeenProcess> WalkProcesses(const LockIdentity& lock, const MayBeOwn& may,
                                         Holders holders) {
  std::map<int, SeenProcess> processes;
  for (const int pid : Others()) {
    SeenProcess& one = processes[pid];
    std::string state;
    StatOf(pid) >> state >> one.parent;
    one.lives = !state.empty() && state != "Z" && state != "X";
    const auto users = may ? UsersOf(pid) : std::vector<std::uint32_t>();
    one.may = !may || std::ranges::any_of(users, may);
    // A supervisor is of this process's user.
    const bool leads =
        holders == Holders::kLead && std::ranges::find(users, ::geteuid()) != users.end();
    one.holds = (one.may || leads) && HoldsFile(pid, lock);
  }
  return processes;
}

// The process itself or one it descends from is in `leaders`.
bool DescendsFrom(int pid, const std::set<int>& leaders,
                  const std::map<int, SeenProcess>& processes) {
  constexpr int kDeepest = 1'000;  // of two moments they may go round in a circle
  auto at = processes.find(pid);
  for (int i = 0; i < kDeepest && at != processes.end(); ++i) {
    if (leaders.contains(at->first)) return true;
    at = processes.find(at->second.parent);
  }
  return false;
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
  const std::map<int, SeenProcess> processes = WalkProcesses(lock, may, holders);
  std::set<int> leaders(roots.begin(), roots.end());
  for (const auto& [pid, one] : processes) {
    if (one.holds && holders == Holders::kLead) leaders.insert(pid);
  }
  std::vector<int> own;
  for (const auto& [pid, one] : processes) {
    if (!one.may || !one.lives) continue;
    if (one.holds || DescendsFrom(pid, leaders, processes) || HasVariable(pid, lock.exec_mark)) {
      own.push_back(pid);
    }
  }
  return own;
}

std::map<std::string, std::vector<int>> OpenBelow(const std::string& directory) {
  const std::string real = AsTheKernelNamesIt(directory);
  std::map<std::string, std::vector<int>> holders;
  for (const int pid : Others()) {
    (void)AnyDescriptor(pid, [&](const std::string& descriptor, std::string path) {
      if (!path.starts_with(real + "/")) return false;
      const auto facts = KnownFacts(pid, descriptor);
      if (!facts || !S_ISREG(facts->stx_mode)) return false;
      if (facts->stx_nlink == 0 && path.ends_with(kDeleted))
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
  std::vector<std::pair<int, UniqueFd>> found;
  for (const int pid : FindOwn(lock_path, roots, may, holders)) {
    if (std::find(spare.begin(), spare.end(), pid) != spare.end()) continue;
    if (UniqueFd process = OpenPidFd(pid)) found.emplace_back(pid, std::move(process));
  }
  if (found.empty()) return;
  // Who was just being started by this agent has closed the lock by now, and leads no more. All are
  // looked at before the first is killed: what loses its parent descends from nothing any more.
  const std::vector<int> still = FindOwn(lock_path, roots, may, holders);
  for (const auto& [pid, process] : found) {
    if (std::ranges::binary_search(still, pid)) SignalPidFd(process, SIGKILL);
  }
}

bool HidesFiles(int pid) {
  const std::string fds = "/proc/" + std::to_string(pid) + "/fd";
  DIR* directory = ::opendir(fds.c_str());
  if (directory == nullptr) return errno != ENOENT && errno != ESRCH;
  bool hides = false;
  // Root without CAP_SYS_PTRACE may list them, and not ask where they lead.
  while (const dirent* entry = hides ? nullptr : ::readdir(directory)) {
    char target[1];
    hides = entry->d_name[0] != '.' &&
            ::readlink((fds + "/" + entry->d_name).c_str(), target, sizeof target) < 0 &&
            (errno == EACCES || errno == EPERM);
  }
  ::closedir(directory);
  return hides;
}

bool HoldsOpen(int pid, const std::string& path) { return HoldsFile(pid, LockIdentity(path)); }

}  // namespace launch::agent
