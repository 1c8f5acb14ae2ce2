#include "agent/runner/resource_holders.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>

#include "agent/runner/small_files.h"
#include "common/account.h"
#include "common/text.h"

namespace launch::agent {
namespace {

constexpr std::size_t kMostHolders = 8;
constexpr std::size_t kMostSockets = 1 << 16;      // lines of one table
constexpr std::size_t kMostDescriptors = 1 << 20;  // looked at in all
constexpr std::size_t kLongestTarget = 4096;       // bytes of a descriptor's path

struct Socket {
  unsigned uid = 0;
  std::string inode;  // digits
};

std::string UserName(unsigned uid) {
  return NameOfUser(uid).value_or("uid " + std::to_string(uid));
}

std::string Describe(const std::string& proc_root, const std::string& pid) {
  const std::string process = proc_root + "/" + pid;
  std::string name(Trim(ReadText(process + "/comm")));  // arguments may hold a secret
  // A process names itself, and these lines are read on other users' terminals.
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  struct stat owner {};
  const bool known = ::stat(process.c_str(), &owner) == 0;
  return "process " + pid + " (" + (name.empty() ? "unnamed" : name) +
         (known ? " of " + UserName(owner.st_uid) : "") + ")";
}

// Lines of /proc/net/tcp and tcp6: number, local ADDRESS:PORT in hex, remote, state, two queues,
// timer, retransmits, uid, timeout, inode.
void FindSockets(const std::string& table, const PortBlock& range, std::map<int, Socket>& found) {
  std::ifstream in(table);
  std::string line;
  for (std::size_t i = 0; i < kMostSockets && std::getline(in, line); ++i) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, inode;
    unsigned uid = 0;
    std::string timeout;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
        timeout >> inode;
    const std::size_t colon = local.rfind(':');
    int port = 0;
    if (!fields || colon == std::string::npos ||
        std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16).ec !=
            std::errc()) {
      continue;
    }
    const bool in_range = port >= range.first && port < range.first + range.count;
    if (in_range && inode != "0") found.emplace(port, Socket{uid, inode});
  }
}

// Calls `look` with each entry of a directory whose name is a number until it returns false.
template <class Look>
void EachNumber(const std::string& directory, Look look) {
  DIR* open = ::opendir(directory.c_str());
  if (open == nullptr) return;
  while (const dirent* entry = ::readdir(open)) {
    if (IsDigit(entry->d_name[0]) && !look(std::string(entry->d_name))) break;
  }
  ::closedir(open);
}

// Calls `look` with the process, the descriptor and what its link reads, of all processes that may
// be looked into, until it returns false. Nothing behind a link is touched: a file may lie on a
// file system that does not answer.
template <class Look>
void EachDescriptor(const HolderSearch& search, Look look) {
  std::size_t looked = 0;
  std::array<char, kLongestTarget> target{};
  bool on = true;
  EachNumber(search.proc_root, [&](const std::string& pid) {
    const std::string fds = search.proc_root + "/" + pid + "/fd";
    EachNumber(fds, [&](const std::string& fd) {
      if (search.Over() || ++looked > kMostDescriptors) return on = false;
      const ssize_t size = ::readlink((fds + "/" + fd).c_str(), target.data(), target.size());
      if (size <= 0) return true;
      return on = look(pid, fd, std::string_view(target.data(), static_cast<std::size_t>(size)));
    });
    return on && !search.Over();
  });
}

// Number of the process that has each socket; those that may not be looked into are left out.
std::map<std::string, std::string, std::less<>> OwnersOf(const std::map<int, Socket>& sockets,
                                                         const HolderSearch& search) {
  std::map<std::string, std::string, std::less<>> owners;  // "socket:[123]" -> pid
  for (const auto& [port, socket] : sockets) owners["socket:[" + socket.inode + "]"];
  std::size_t left = owners.size();
  if (left == 0) return owners;
  EachDescriptor(search, [&](const std::string& pid, const std::string&, std::string_view target) {
    const auto owner = owners.find(target);
    if (owner == owners.end() || !owner->second.empty()) return true;
    owner->second = pid;
    return --left > 0;
  });
  return owners;
}

struct SoughtLock {
  std::string path;  // as it was asked for
  std::string real;
  std::string name;
  ino_t inode = 0;
};

std::vector<SoughtLock> LocksOf(const std::vector<std::string>& paths) {
  std::vector<SoughtLock> locks;
  for (const std::string& path : paths) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) continue;
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (!error) locks.push_back({path, real.string(), real.filename().string(), info.st_ino});
  }
  return locks;
}

// "ino:" of /proc/PID/fdinfo/FD.
bool HasInode(const std::string& fdinfo, ino_t inode) {
  std::istringstream lines(ReadText(fdinfo));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("ino:")) return Trim(line.substr(4)) == std::to_string(inode);
  }
  return false;
}

// A container may have the directory at another place: there the last part of the name is the same.
bool IsOf(const SoughtLock& lock, std::string_view target, const std::string& fdinfo) {
  if (target == lock.real) return true;
  return target.substr(target.rfind('/') + 1) == lock.name && HasInode(fdinfo, lock.inode);
}

}  // namespace

std::vector<std::string> PortHolders(const PortBlock& range, const HolderSearch& search) {
  std::map<int, Socket> sockets;  // one a port
  for (const char* const table : {"/net/tcp", "/net/tcp6"})
    FindSockets(search.proc_root + table, range, sockets);
  const std::size_t all = sockets.size();
  while (sockets.size() > kMostHolders) sockets.erase(std::prev(sockets.end()));
  const auto owners = OwnersOf(sockets, search);
  std::vector<std::string> lines;
  for (const auto& [port, socket] : sockets) {
    const std::string& pid = owners.at("socket:[" + socket.inode + "]");
    const std::string who =
        pid.empty() ? "a process of " + UserName(socket.uid) : Describe(search.proc_root, pid);
    lines.push_back("port " + std::to_string(port) + ": " + who);
  }
  if (all > sockets.size()) {
    lines.push_back("and " + std::to_string(all - sockets.size()) + " ports more");
  }
  return lines;
}

std::vector<std::string> LockHolders(const std::vector<std::string>& paths,
                                     const HolderSearch& search) {
  std::vector<std::string> lines;
  const std::vector<SoughtLock> locks = LocksOf(paths);
  if (locks.empty()) return lines;
  const std::string self = std::to_string(::getpid());
  EachDescriptor(search,
                 [&](const std::string& pid, const std::string& fd, std::string_view target) {
                   if (pid == self) return true;
                   const std::string fdinfo = search.proc_root + "/" + pid + "/fdinfo/" + fd;
                   for (const SoughtLock& lock : locks) {
                     if (!IsOf(lock, target, fdinfo)) continue;
                     std::string line = lock.path + ": " + Describe(search.proc_root, pid);
                     if (std::ranges::find(lines, line) == lines.end())
                       lines.push_back(std::move(line));
                   }
                   return lines.size() < kMostHolders;
                 });
  std::ranges::sort(lines);  // those of a lock one behind the other
  return lines;
}

}  // namespace launch::agent
