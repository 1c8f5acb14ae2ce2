#include "agent/runner/resource_holders.h"

#include <dirent.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "agent/runner/process.h"
#include "agent/runner/small_files.h"
#include "common/text.h"

namespace launch::agent {
namespace {

constexpr std::size_t kMostHolders = 8;
constexpr std::size_t kMostSockets = 1 << 16;      // lines of one table
constexpr std::size_t kMostDescriptors = 1 << 20;  // looked at in all

struct Socket {
  unsigned uid = 0;
  std::string inode;  // digits
};

std::string UserName(unsigned uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> buffer{};
  const bool named = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found;
  return named ? found->pw_name : "uid " + std::to_string(uid);
}

std::string Describe(const std::string& proc_root, const std::string& pid) {
  const std::string process = proc_root + "/" + pid;
  const std::string name(Trim(ReadText(process + "/comm")));  // arguments may hold a secret
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

std::vector<std::string> Numbers(const std::string& directory) {
  std::vector<std::string> names;
  DIR* open = ::opendir(directory.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open)) {
    if (IsDigit(entry->d_name[0])) names.emplace_back(entry->d_name);
  }
  ::closedir(open);
  return names;
}

// Number of the process that has each socket; those that may not be looked into are left out.
std::map<std::string, std::string> OwnersOf(const std::map<int, Socket>& sockets,
                                            const std::atomic<bool>& cancel,
                                            const std::string& proc_root) {
  std::map<std::string, std::string> owners;  // "socket:[123]" -> pid
  for (const auto& [port, socket] : sockets) owners["socket:[" + socket.inode + "]"];
  std::size_t left = owners.size();
  std::size_t looked = 0;
  for (const std::string& pid : Numbers(proc_root)) {
    const std::string fds = proc_root + "/" + pid + "/fd";
    for (const std::string& fd : Numbers(fds)) {
      if (left == 0 || cancel || ++looked > kMostDescriptors) return owners;
      std::array<char, 64> target{};
      const ssize_t size = ::readlink((fds + "/" + fd).c_str(), target.data(), target.size());
      if (size <= 0) continue;
      const auto owner = owners.find(std::string(target.data(), static_cast<std::size_t>(size)));
      if (owner == owners.end() || !owner->second.empty()) continue;
      owner->second = pid;
      --left;
    }
  }
  return owners;
}

}  // namespace

std::vector<std::string> PortHolders(const PortBlock& range, const std::atomic<bool>& cancel,
                                     const std::string& proc_root) {
  std::map<int, Socket> sockets;  // one a port
  for (const char* const table : {"/net/tcp", "/net/tcp6"})
    FindSockets(proc_root + table, range, sockets);
  const std::size_t all = sockets.size();
  while (sockets.size() > kMostHolders) sockets.erase(std::prev(sockets.end()));
  const auto owners = OwnersOf(sockets, cancel, proc_root);
  std::vector<std::string> lines;
  for (const auto& [port, socket] : sockets) {
    const std::string& pid = owners.at("socket:[" + socket.inode + "]");
    const std::string who =
        pid.empty() ? "a process of " + UserName(socket.uid) : Describe(proc_root, pid);
    lines.push_back("port " + std::to_string(port) + ": " + who);
  }
  if (all > sockets.size()) {
    lines.push_back("and " + std::to_string(all - sockets.size()) + " ports more");
  }
  return lines;
}

std::vector<std::string> LockHolders(const std::string& path, const std::atomic<bool>& cancel) {
  std::vector<std::string> lines;
  for (const std::string& pid : Numbers("/proc")) {
    if (cancel || lines.size() >= kMostHolders) break;
    const int number = std::atoi(pid.c_str());
    if (number == ::getpid() || !HoldsOpen(number, path)) continue;
    lines.push_back(path + ": " + Describe("/proc", pid));
  }
  return lines;
}

}  // namespace launch::agent
