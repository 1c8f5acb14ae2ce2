#include "agent/shim/shim_children.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace launch::shim {
namespace {

struct DirectoryEntry {  // linux_dirent64
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[1];
};

// Signalling a direct child by number is safe: it stays ours, at least as a zombie, until we reap.
bool SignalListed(int signal) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(::getpid()));
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  static char buffer[65536];
  ssize_t kept = 0;
  for (;;) {
    const ssize_t got =
        ::read(fd, buffer + kept, sizeof buffer - 1 - static_cast<std::size_t>(kept));
    if (got <= 0) break;
    buffer[kept + got] = '\0';
    char* at = buffer;
    char* space = nullptr;
    while ((space = std::strchr(at, ' ')) != nullptr) {
      const auto pid = static_cast<pid_t>(std::strtol(at, nullptr, 10));
      if (pid > 1) (void)::kill(pid, signal);
      at = space + 1;
    }
    kept = static_cast<ssize_t>(std::strlen(at));
    std::memmove(buffer, at, static_cast<std::size_t>(kept));
  }
  ::close(fd);
  return true;
}

pid_t ParentOf(const char* pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  char text[512];
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (got <= 0) return -1;
  text[got] = '\0';
  const char* after = std::strrchr(text, ')');  // the name may hold anything
  if (after == nullptr || std::strlen(after) < 5) return -1;
  return static_cast<pid_t>(std::strtol(after + 4, nullptr, 10));
}

// Kernels without /proc/PID/task/TID/children.
void SignalScanned(int signal) {
  const int fd = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  alignas(DirectoryEntry) static char buffer[32768];
  for (;;) {
    const long got = ::syscall(SYS_getdents64, fd, buffer, sizeof buffer);
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      const char* const name = entry->name;
      if (name[0] >= '1' && name[0] <= '9' && ParentOf(name) == ::getpid()) {
        (void)::kill(static_cast<pid_t>(std::strtol(name, nullptr, 10)), signal);
      }
      at += entry->length;
    }
  }
  ::close(fd);
}

}  // namespace

void SignalChildren(int signal) {
  if (!SignalListed(signal)) SignalScanned(signal);
}

}  // namespace launch::shim
