#include "agent/probes/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <set>
#include <utility>

#include "agent/account/spawn.h"
#include "agent/shim/cgroup_birth.h"
#include "common/text.h"

extern char** environ;

namespace launch::agent {
namespace {

constexpr std::size_t kMaxOutput = 1u << 20;
constexpr Millis kWithoutPidfd{20};  // how often an old kernel is asked whether the child ended
constexpr int kReadsPerTurn = 64;    // of 8 KiB, of a program that prints without end

using Steady = std::chrono::steady_clock;

// The children that were not waited for: their numbers are nobody else's.
class Children {
 public:
  // Never destroyed: threads may end children until the last moment.
  static Children& All() {
    static auto* const children = new Children;
    return *children;
  }
  void Add(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.insert(pid);
    if (over_) ::kill(-pid, SIGKILL);
  }
  void Remove(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.erase(pid);
  }
  void End() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    for (const pid_t pid : pids_) ::kill(-pid, SIGKILL);
  }

 private:
  std::mutex mutex_;
  std::set<pid_t> pids_;
  bool over_ = false;
};

Millis Left(Steady::time_point until) {
  return std::max(Millis{0}, std::chrono::duration_cast<Millis>(until - Steady::now()));
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno("pipe2", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Towards the child: a socket, because send() can be told to raise no SIGPIPE.
Result<Pipe> MakeInput() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return FailErrno("socketpair", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Attributes and actions of one posix_spawn, freed together.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

void SetNonBlocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// What a program is given at its start.
struct Given {
  int in = -1;
  int out = -1;
  bool merge_stderr = false;
  char* const* argv = nullptr;
  char* const* env = nullptr;
};

// posix_spawn does not tell the steps apart: its errors name none of the program's.
tl::expected<pid_t, SpawnError> StartAsSelf(const Given& given) {
  SpawnPlan plan;
  ::posix_spawn_file_actions_adddup2(&plan.actions, given.in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&plan.actions, given.out, STDOUT_FILENO);
  if (given.merge_stderr)
    ::posix_spawn_file_actions_adddup2(&plan.actions, given.out, STDERR_FILENO);
  // A descriptor that somebody forgot to mark would otherwise keep a lock or a socket alive.
  ::posix_spawn_file_actions_addclosefrom_np(&plan.actions, STDERR_FILENO + 1);
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, given.argv[0], &plan.actions, &plan.attributes, given.argv, given.env);
  if (error != 0) return FailErrno("start " + std::string(given.argv[0]), error);
  return pid;
}

// What the child needs, ready before the fork: it may not allocate.
struct AccountChild final : Becoming {
  Given given;
  std::vector<char*> cgroups;           // ends with a null pointer
  std::optional<shim::AccountIds> ids;  // absent: it stays what this process is
  pid_t parent = -1;                    // with whom it dies; -1: with nobody

  int Prepare(int& report) const override {
    ResetHandlers();
    // The thread that asks may act as the account: what comes first is this process's own to do.
    (void)::setfsuid(::geteuid());
    (void)::setfsgid(::getegid());
    if (const int failed = shim::JoinCgroups(cgroups.data()); failed != 0) return failed;
    if (::setsid() < 0) return errno;  // no terminal of root's, and a process group of its own
    shim::LeaveOomProtection();
    if (ids) (void)::umask(kAccountUmask);
    if (::dup2(given.in, STDIN_FILENO) < 0 || ::dup2(given.out, STDOUT_FILENO) < 0) return errno;
    if (given.merge_stderr && ::dup2(given.out, STDERR_FILENO) < 0) return errno;
    constexpr int kReport = STDERR_FILENO + 1;
    if (::dup3(report, kReport, O_CLOEXEC) < 0) return errno;
    report = kReport;
    ::close_range(kReport + 1, ~0U, 0);
    if (ids) {
      if (const int failed = shim::BecomeAccount(*ids); failed != 0) return failed;
      if (::chdir("/") != 0) return errno;  // where Python looks for modules first
    }
    // A change of credentials would clear it.
    if (parent > 0) {
      if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
      if (::getppid() != parent) return ESRCH;
    }
    return 0;
  }
  int Execute() const override {
    ::execve(given.argv[0], given.argv, given.env);
    return errno;
  }
};

tl::expected<pid_t, SpawnError> StartAs(const std::optional<LocalAccount>& account,
                                        std::vector<std::string> cgroups, Given given,
                                        bool dies_with_us) {
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd in, AboveTargets(given.in));
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd out, AboveTargets(given.out));
  given.in = in.get();
  given.out = out.get();
  AccountChild child;
  child.given = given;
  child.cgroups = Pointers(cgroups);
  if (dies_with_us) child.parent = ::getpid();
  if (account) child.ids = IdsOf(*account);
  const std::string as = account ? " as " + account->name : "";
  return Spawn(child, -1, "start " + std::string(given.argv[0]) + as);
}

}  // namespace

tl::expected<ChildProcess, SpawnError> ChildProcess::Spawn(const Options& options) {
  LAUNCH_ASSIGN_OR_RETURN(Pipe in, MakeInput());
  LAUNCH_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  std::vector<std::string> argv_texts = options.argv;
  std::vector<std::string> env_texts;
  if (options.env) {
    env_texts.reserve(options.env->size());
    for (const auto& [name, value] : *options.env)
      env_texts.emplace_back(name).append("=").append(value);
  }
  const std::vector<char*> argv = Pointers(argv_texts);
  const std::vector<char*> env = Pointers(env_texts);

  const Given given{in.read.get(), out.write.get(), options.merge_stderr, argv.data(),
                    options.env ? env.data() : environ};
  const bool as_self = !options.account || options.account->uid == ::geteuid();
  const bool plain = as_self && options.cgroups.empty() && !options.dies_with_us;
  const auto pid = plain ? StartAsSelf(given)
                         : StartAs(as_self ? std::nullopt : options.account, options.cgroups, given,
                                   options.dies_with_us);
  if (!pid) return tl::unexpected(pid.error());
  SetNonBlocking(in.write.get());
  SetNonBlocking(out.read.get());
  return ChildProcess(*pid, std::move(in.write), std::move(out.read));
}

ChildProcess::ChildProcess(pid_t pid, UniqueFd in, UniqueFd out)
    : pid_(pid),
      in_(std::move(in)),
      out_(std::move(out)),
      pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
  Children::All().Add(pid_);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      status_(other.status_),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      pidfd_(std::move(other.pidfd_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(pidfd_, other.pidfd_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || status_) return;
  Kill();
  if (!Reap(Millis{500})) Children::All().Remove(pid_);
}

std::optional<int> ChildProcess::Reap(Millis wait) {
  const Steady::time_point until = Steady::now() + wait;
  while (!status_) {
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == pid_) {
      Kill();  // what it left behind, while its number still is nobody else's
      Children::All().Remove(pid_);
      int status = 0;
      if (::waitpid(pid_, &status, 0) == pid_) status_ = status;
      break;
    }
    const Millis left = Left(until);
    if (left == Millis{0}) break;
    pollfd wake{pidfd_.get(), POLLIN, 0};  // without a pidfd: -1, and poll only waits
    const Millis step = pidfd_ ? left : std::min(left, kWithoutPidfd);
    (void)::poll(&wake, 1, static_cast<int>(step.count()));
  }
  return status_;
}

void ChildProcess::Kill() const {
  if (pid_ > 0 && !status_) ::kill(-pid_, SIGKILL);
}

void EndChildProcesses() { Children::All().End(); }

tl::expected<Captured, SpawnError> RunProgram(const std::vector<std::string>& argv,
                                              const std::map<std::string, std::string>& env,
                                              const Patience& patience,
                                              const std::atomic<bool>* cancel,
                                              const std::optional<LocalAccount>& account,
                                              const MakeProbeScope& scope) {
  ProbeScope within;  // ends behind the child
  if (scope) {
    LAUNCH_ASSIGN_OR_RETURN(within, scope());
  }
  auto started = ChildProcess::Spawn({.argv = argv,
                                      .env = env,
                                      .merge_stderr = true,
                                      .account = account,
                                      .cgroups = within.cgroups,
                                      .dies_with_us = true});
  if (!started) return tl::unexpected(std::move(started).error());
  ChildProcess child = *std::move(started);
  child.CloseIn();
  const Steady::time_point began = Steady::now();
  bool spoke = patience.word.empty();
  Captured captured;
  while (true) {
    // Asked before reading: what was written before the end is then surely in the pipe.
    const std::optional<int> status = child.Reap(Millis{0});
    char buffer[8192];
    ssize_t got = 0;
    for (int i = 0; i < kReadsPerTurn; ++i) {
      got = ::read(child.out(), buffer, sizeof buffer);
      if (got <= 0) break;
      const std::size_t room = kMaxOutput - captured.output.size();
      captured.output.append(buffer, std::min(room, static_cast<std::size_t>(got)));
    }
    captured.status = status;
    if (!spoke) spoke = captured.output.find(patience.word) != std::string::npos;
    const Millis left =
        Left(began + (spoke ? patience.all : std::min(patience.first, patience.all)));
    if (status || left == Millis{0} || (cancel != nullptr && *cancel)) {
      child.Kill();
      (void)child.Reap(Millis{500});
      return captured;
    }
    // After its end of file the pipe would be ready for ever; the pidfd still tells the end.
    pollfd wait[2] = {{child.pidfd(), POLLIN, 0}, {got == 0 ? -1 : child.out(), POLLIN, 0}};
    const bool listens = child.pidfd() >= 0 && cancel == nullptr;
    const Millis step = listens ? left : std::min(left, kWithoutPidfd);
    (void)::poll(wait, 2, static_cast<int>(step.count()));
  }
}

std::string FindProgram(const std::string& name, const std::string& path) {
  for (const std::string_view directory : Split(path, ':')) {
    if (directory.empty() || directory.front() != '/') continue;
    const std::string candidate = std::string(directory).append("/").append(name);
    struct stat found {};
    if (::stat(candidate.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
        ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return {};
}

}  // namespace launch::agent
