// A rank that testifies: it writes down that it ran, holds a lock while it runs, and prints lines
// whose loss or reordering a reader can prove.
//
//   witness [--exit N] [--signal N] [--ignore-term] [--fork-daemon] [--flood MB] [--lines N]
//           [--sleep-until FILE] [--alloc MB] [--hold-fd] [--print-env] [--on-usr1 FILE]
//
// Environment: WITNESS_DIR (ledger and locks), LAUNCH_JOB_ID, LAUNCH_ATTEMPT, RANK.
// Exit 97: another process of the same (job, rank) runs at the same time.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

extern char** environ;

namespace {

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string("-") : std::string(value);
}

long long BootMs() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<long long>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

void AppendLine(const std::string& path, const std::string& line) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  (void)!::write(fd, line.data(), line.size());
  ::close(fd);
}

// FNV-1a over everything printed so far: "line 7 crc 0123456789abcdef".
class Lines {
 public:
  void Print() {
    char text[80];
    const int size = std::snprintf(text, sizeof text, "line %llu crc %016llx\n",
                                   static_cast<unsigned long long>(number_++),
                                   static_cast<unsigned long long>(hash_));
    for (int i = 0; i < size; ++i) {
      hash_ = (hash_ ^ static_cast<unsigned char>(text[i])) * 1099511628211ull;
    }
    const char* at = text;
    for (int left = size; left > 0;) {
      const ssize_t wrote = ::write(1, at, static_cast<std::size_t>(left));
      if (wrote <= 0) std::_Exit(96);
      at += wrote;
      left -= static_cast<int>(wrote);
      bytes_ += static_cast<std::uint64_t>(wrote);
    }
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t number_ = 0;
  std::uint64_t hash_ = 14695981039346656037ull;
  std::uint64_t bytes_ = 0;
};

bool Exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

std::string usr1_file;  // read by a signal handler
std::atomic<bool> got_usr1 = false;

// Leaves the session, closes every descriptor and clears its environment: the hardest to find.
void ForkDaemon(const std::string& ledger) {
  if (::fork() != 0) return;
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  AppendLine(ledger, "daemon " + std::to_string(::getpid()) + "\n");
  ::close_range(0, ~0u, 0);
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  int exit_code = 0;
  int signal_number = 0;
  int lines = 3;
  std::uint64_t flood = 0;
  std::uint64_t allocate = 0;
  std::string sleep_until;
  bool fork_daemon = false;
  const auto next = [&](int& i) { return std::string(i + 1 < argc ? argv[++i] : ""); };
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--exit")
      exit_code = std::atoi(next(i).c_str());
    else if (flag == "--signal")
      signal_number = std::atoi(next(i).c_str());
    else if (flag == "--lines")
      lines = std::atoi(next(i).c_str());
    else if (flag == "--flood")
      flood = std::strtoull(next(i).c_str(), nullptr, 10) << 20;
    else if (flag == "--alloc")
      allocate = std::strtoull(next(i).c_str(), nullptr, 10) << 20;
    else if (flag == "--sleep-until")
      sleep_until = next(i);
    else if (flag == "--ignore-term")
      std::signal(SIGTERM, SIG_IGN);
    else if (flag == "--fork-daemon")
      fork_daemon = true;
    else if (flag == "--on-usr1") {
      usr1_file = next(i);
      std::signal(SIGUSR1, [](int) { got_usr1 = true; });
    } else if (flag == "--print-env") {
      for (char** entry = environ; *entry != nullptr; ++entry) std::printf("%s\n", *entry);
      std::fflush(stdout);
    } else {
      std::fprintf(stderr, "witness: unknown flag %s\n", flag.c_str());
      return 2;
    }
  }

  const std::string dir = Env("WITNESS_DIR");
  const std::string job = Env("LAUNCH_JOB_ID");
  const std::string rank = Env("RANK");
  const std::string ledger = dir + "/ledger";
  const std::string lock = dir + "/lock." + job + "." + rank;
  const int lock_fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  const bool alone = lock_fd < 0 || ::flock(lock_fd, LOCK_EX | LOCK_NB) == 0;
  AppendLine(ledger, (alone ? "start " : "overlap ") + job + " " + Env("LAUNCH_ATTEMPT") + " " +
                         rank + " " + std::to_string(::getpid()) + " " + std::to_string(BootMs()) +
                         "\n");
  if (!alone) return 97;

  if (fork_daemon) ForkDaemon(ledger);
  Lines out;
  for (int i = 0; i < lines; ++i) out.Print();
  while (out.bytes() < flood) out.Print();
  std::vector<char> memory;
  if (allocate > 0) {
    memory.resize(allocate);
    for (std::size_t i = 0; i < memory.size(); i += 4096) memory[i] = 1;
  }
  while (!sleep_until.empty() && !Exists(sleep_until)) {
    if (got_usr1.exchange(false)) AppendLine(usr1_file, "usr1 " + rank + "\n");
    out.Print();
    ::usleep(20'000);
  }
  if (signal_number > 0) {
    std::signal(signal_number, SIG_DFL);
    ::raise(signal_number);
    ::pause();
  }
  AppendLine(ledger, "end " + job + " " + Env("LAUNCH_ATTEMPT") + " " + rank + " " +
                         std::to_string(::getpid()) + "\n");
  return exit_code;
}
