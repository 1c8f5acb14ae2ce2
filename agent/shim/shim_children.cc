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

struct Facts {
  pid_t parent = -1;         // -1: there is no such process
  std::uint64_t caught = 0;  // bit n - 1 is signal n; up to 31
};

// Of /proc/PID/stat, whose length is bounded, as that of `status` is not.
Facts FactsOf(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[2048];
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (got <= 0) return {};
  text[got] = '\0';
  const char* at = std::strrchr(text, ')');  // the name may hold anything
  if (at == nullptr) return {};
  Facts facts;
  for (int field = 3; field <= 34; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return {};
    if (field == 4) facts.parent = static_cast<pid_t>(std::strtol(at + 1, nullptr, 10));
    if (field == 34) facts.caught = std::strtoull(at + 1, nullptr, 10);
  }
  return facts;
}

// Calls `look` with the number of each direct child: it stays ours, at least as a zombie, until we
// reap, so signalling it by number is safe. False: this kernel has no such list.
template <class Look>
bool EachListedChild(Look look) {
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
      if (pid > 1) look(pid);
      at = space + 1;
    }
    kept = static_cast<ssize_t>(std::strlen(at));
    std::memmove(buffer, at, static_cast<std::size_t>(kept));
  }
  ::close(fd);
  return true;
}

// Calls `look` with the number of each process.
template <class Look>
void EachProcess(Look look) {
  const int fd = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  alignas(DirectoryEntry) static char buffer[32768];
  for (;;) {
    const long got = ::syscall(SYS_getdents64, fd, buffer, sizeof buffer);
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      const char* const name = entry->name;
      if (name[0] >= '1' && name[0] <= '9')
        look(static_cast<pid_t>(std::strtol(name, nullptr, 10)));
      at += entry->length;
    }
  }
  ::close(fd);
}

template <class Look>
void EachChild(Look look) {
  if (EachListedChild(look)) return;
  EachProcess([&](pid_t pid) {
    if (FactsOf(pid).parent == ::getpid()) look(pid);
  });
}

constexpr std::uint64_t BitOf(int signal) { return std::uint64_t{1} << (signal - 1); }

// bash with a trap for EXIT, and programs in Go, catch whatever could end them, these too, which no
// trainer has a use for: that says nothing of the signal.
constexpr std::uint64_t kBlanket = BitOf(SIGTRAP) | BitOf(SIGXFSZ) | BitOf(SIGVTALRM);

bool Catches(const Facts& facts, int signal) {
  return (facts.caught & BitOf(signal)) != 0 && (facts.caught & kBlanket) != kBlanket;
}

struct Level {  // processes of one depth below the rank's; more are left out
  pid_t pids[1024];
  int count = 0;

  bool Has(pid_t pid) const {
    for (int i = 0; i < count; ++i) {
      if (pids[i] == pid) return true;
    }
    return false;
  }
  void Add(pid_t pid) {
    if (count < static_cast<int>(sizeof pids / sizeof pids[0])) pids[count++] = pid;
  }
};

// One child of `above`: behind a pidfd, so that its number cannot become another's in between.
// Whether it catches the signal, and was sent it; else it is added to `below`.
bool SignalOrAdd(pid_t pid, int signal, const Level& above, Level& below) {
  const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return false;
  const Facts facts = FactsOf(pid);
  bool sent = false;
  if (above.Has(facts.parent)) {
    const bool catches = Catches(facts, signal);
    sent = catches && ::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0) == 0;
    if (!catches) below.Add(pid);
  }
  ::close(fd);
  return sent;
}

}  // namespace

void SignalChildren(int signal) {
  EachChild([&](pid_t pid) { (void)::kill(pid, signal); });
}

void SignalLeft(pid_t group, Left whom, int signal) {
  bool in_group = false;
  EachChild([&](pid_t pid) {
    if (::getpgid(pid) != group) {
      (void)::kill(pid, signal);
    } else {
      in_group = true;
    }
  });
  if (in_group && group > 1 && whom == Left::kAll) (void)::kill(-group, signal);
}

bool SignalCatchersBelow(pid_t process, int signal) {
  constexpr int kDeepest = 16;
  constexpr int kLastBit = 31;  // real-time signals: nobody is known to catch them
  if (signal < 1 || signal > kLastBit || Catches(FactsOf(process), signal)) return false;
  static Level levels[2];
  Level* above = &levels[0];
  Level* below = &levels[1];
  above->count = 0;
  above->Add(process);
  bool any = false;
  for (int depth = 0; depth < kDeepest && above->count > 0; ++depth) {
    below->count = 0;
    EachProcess([&](pid_t pid) {
      if (above->Has(FactsOf(pid).parent)) any = SignalOrAdd(pid, signal, *above, *below) || any;
    });
    Level* const next = below;
    below = above;
    above = next;
  }
  return any;
}

}  // namespace launch::shim
