// A rank that testifies under chaos: it holds locks which no other attempt may find held, writes
// down when it began and ended, and keeps a second copy of every byte that it prints.
//
//   ledger_rank [--exit N] [--for MS] [--until MS] [--ignore-term] [--escape]
//
// It runs for --for, and until the boot time --until if that is later.
// Environment: LEDGER_DIR (shared by all nodes), LAUNCH_JOB_ID, LAUNCH_ATTEMPT, RANK,
// CUDA_VISIBLE_DEVICES. Lines of LEDGER_DIR/ledger, with boot time in ms:
//   start JOB ATTEMPT RANK PID TIME NODE
//   overlap JOB ATTEMPT RANK PID TIME WHAT   something of another attempt, or another job, lives
//   end JOB ATTEMPT RANK PID TIME CODE BYTES
// LEDGER_DIR/out.JOB.ATTEMPT.RANK: what was printed, written after it was printed.
#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

long long BootMs() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<long long>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

std::string NodeName() {
  utsname name{};
  ::uname(&name);
  return static_cast<const char*>(name.nodename);
}

// Every byte, however long the disk is full: what the rank printed must be exactly known.
void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote > 0)
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
    else if (errno != EINTR)
      ::usleep(20'000);
  }
}

struct Self {
  std::string dir = Env("LEDGER_DIR");
  std::string job = Env("LAUNCH_JOB_ID");
  std::string attempt = Env("LAUNCH_ATTEMPT");
  std::string rank = Env("RANK");
  std::string node = NodeName();

  void Note(const std::string& word, const std::string& more) const {
    const int fd =
        ::open((dir + "/ledger").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    WriteAll(fd, word + " " + job + " " + attempt + " " + rank + " " + std::to_string(::getpid()) +
                     " " + std::to_string(BootMs()) + " " + more + "\n");
    ::close(fd);
  }
};

// Held by this process and its children until the last one ends.
void HoldAlone(const Self& self, const std::string& name) {
  const int fd = ::open((self.dir + "/" + name).c_str(), O_RDWR | O_CREAT, 0666);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) self.Note("overlap", name);
}

// A read lock on the file of this attempt says that some rank of it lives. Other attempts are only
// asked, so that two ranks asking at once never disturb each other.
void HoldAttempt(const Self& self) {
  const std::string stem = self.dir + "/attempt." + self.job + ".";
  const std::string own = stem + self.attempt;
  struct flock whole {};
  whole.l_type = F_RDLCK;
  whole.l_whence = SEEK_SET;
  const int held = ::open(own.c_str(), O_RDWR | O_CREAT, 0666);
  ::fcntl(held, F_OFD_SETLK, &whole);
  glob_t others{};
  if (::glob((stem + "*").c_str(), 0, nullptr, &others) == 0) {
    for (std::size_t i = 0; i < others.gl_pathc; ++i) {
      const std::string path = others.gl_pathv[i];
      if (path == own) continue;
      const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      struct flock asked {};
      asked.l_type = F_WRLCK;
      asked.l_whence = SEEK_SET;
      if (::fcntl(fd, F_OFD_GETLK, &asked) == 0 && asked.l_type != F_UNLCK)
        self.Note("overlap", path.substr(self.dir.size() + 1));
      ::close(fd);
    }
  }
  ::globfree(&others);
}

// Leaves the session, closes every descriptor and keeps only its cgroup: the hardest to find.
void Escape() {
  if (::fork() != 0) return;
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ::signal(SIGTERM, SIG_IGN);
  ::close_range(0, ~0u, 0);
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  int code = 0;
  long long milliseconds = 0;
  long long until = 0;
  bool escape = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--exit" && i + 1 < argc)
      code = std::atoi(argv[++i]);
    else if (flag == "--for" && i + 1 < argc)
      milliseconds = std::atoll(argv[++i]);
    else if (flag == "--until" && i + 1 < argc)
      until = std::atoll(argv[++i]);
    else if (flag == "--ignore-term")
      ::signal(SIGTERM, SIG_IGN);
    else if (flag == "--escape")
      escape = true;
    else {
      std::fprintf(stderr, "ledger_rank: unknown flag %s\n", flag.c_str());
      return 2;
    }
  }
  const Self self;
  HoldAlone(self, "rank." + self.job + "." + self.rank);
  HoldAttempt(self);
  std::istringstream devices(Env("CUDA_VISIBLE_DEVICES"));
  for (std::string device; std::getline(devices, device, ',');)
    HoldAlone(self, "gpu." + self.node + "." + device);
  self.Note("start", self.node);
  if (escape) Escape();

  const std::string copy = self.dir + "/out." + self.job + "." + self.attempt + "." + self.rank;
  const int second = ::open(copy.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const long long end = std::max(until, BootMs() + milliseconds);
  std::size_t bytes = 0;
  for (unsigned number = 0; number == 0 || BootMs() < end; ++number) {
    const std::string line = "line " + std::to_string(number) + " of attempt " + self.attempt +
                             " rank " + self.rank + " at " + std::to_string(BootMs()) + "\n";
    WriteAll(1, line);
    WriteAll(second, line);
    bytes += line.size();
    ::usleep(20'000);
  }
  self.Note("end", std::to_string(code) + " " + std::to_string(bytes));
  return code;
}
