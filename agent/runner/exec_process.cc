#include "agent/runner/exec_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "agent/account/spawn.h"
#include "agent/runner/account_files.h"
#include "agent/runner/attempt_dir.h"
#include "agent/runner/container.h"
#include "agent/runner/process.h"
#include "agent/runner/rank_env.h"
#include "agent/runner/rank_surroundings.h"
#include "agent/shim/become_account.h"
#include "agent/shim/cgroup_birth.h"
#include "common/exec_mark.h"
#include "common/file_system.h"

namespace launch::agent {
namespace {

constexpr int kFdLock = 3;  // keeps the attempt's lock open: level tree finds it by that
constexpr int kFdReport = 4;

// The image a second time: where its runtime needs rights that its user has not, nobody else can
// enter what it made.
Result<void> EnterAgain(const ExecPlace& place, const std::optional<LocalAccount>& account,
                        const std::string& own_dir, std::vector<std::string>& argv,
                        std::vector<std::string>& env) {
  std::erase_if(env, [](const std::string& variable) {
    return variable.starts_with("APPTAINERENV_") || variable.starts_with("SINGULARITYENV_");
  });
  LAUNCH_ASSIGN_OR_RETURN(
      Contained contained,
      ContainerCommand({.container = *place.container,
                        .name = "launch-exec-" + place.id,
                        .workdir = ValueOf(env, "PWD").empty() ? "/" : ValueOf(env, "PWD"),
                        .attempt_dir = place.attempt_dir,
                        .own_dir = own_dir,
                        .images_dir = account ? ImagesDir(place.attempt_dir, *account) : "",
                        .gpus = !ValueOf(env, "CUDA_VISIBLE_DEVICES").empty(),
                        .host = HostFor(account),
                        .argv = argv,
                        .env = env}));
  argv = std::move(contained.argv);
  env = std::move(contained.env);
  return {};
}

void Set(std::vector<std::string>& env, const std::string& name, const std::string& value) {
  std::erase_if(env, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  env.push_back(name + "=" + value);
}

void JoinPointers(std::vector<std::string>& words, std::vector<char*>& pointers) {
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
}

bool TakeTerminal(const std::string& slave) {
  const int fd = ::open(slave.c_str(), O_RDWR);
  if (fd < 0 || ::ioctl(fd, TIOCSCTTY, 0) != 0) return false;
  for (int target = 0; target < 3; ++target) {
    if (::dup2(fd, target) < 0) return false;
  }
  if (fd > 2) ::close(fd);
  return true;
}

bool TakePipes(const UniqueFd (&stdio)[3]) {
  for (int target = 0; target < 3; ++target) {
    if (::dup2(stdio[target].get(), target) < 0) return false;
  }
  return true;
}

// What the child needs, ready before the fork: it may not allocate.
struct ExecChild final : Becoming {
  std::vector<char*> programs;  // paths of argv[0]: the first one that is there
  std::vector<char*> argv;
  std::vector<char*> env;
  std::vector<std::string> cgroups;
  std::vector<char*> cgroup_files;
  bool born = false;  // in the first of them
  std::string slave;  // path of its terminal; empty: none
  UniqueFd stdio[3];  // without a terminal
  UniqueFd lock;      // none where a control group tells what belongs to the job
  const Beside* beside = nullptr;
  shim::AccountIds ids;  // of beside's account, if it has one

  int Prepare(int& report) const override {
    ResetHandlers();
    const int error_number = shim::JoinCgroups(cgroup_files.data() + (born ? 1 : 0));
    if (error_number != 0) return error_number;
    if (::setsid() < 0) return errno;
    if (slave.empty() ? !TakePipes(stdio) : !TakeTerminal(slave)) return errno;
    shim::LeaveOomProtection();
    for (const auto& [kind, limit] : beside->limits) (void)::setrlimit(kind, &limit);
    const cpu_set_t& cpus = beside->cpus;
    if (CPU_COUNT(&cpus) > 0) (void)::sched_setaffinity(0, sizeof cpus, &cpus);
    // Namespaces of root's are entered as root. A user namespace is entered by the account that
    // owns it: in there that account could trace a process of root's.
    const bool as_root = beside->inside && (beside->inside->kinds & CLONE_NEWUSER) == 0;
    if (as_root) {
      if (const int failed = Enter(); failed != 0) return failed;
    }
    if (beside->account) {
      (void)::umask(kAccountUmask);
      const int failed = shim::BecomeAccount(ids);
      if (failed != 0) return failed;
    }
    if (beside->no_new_privileges && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
    if (!as_root) {
      if (const int failed = Enter(); failed != 0) return failed;
    }
    if (lock ? ::dup2(lock.get(), kFdLock) < 0 : ::close(kFdLock) < 0 && errno != EBADF)
      return errno;
    if (::dup3(report, kFdReport, O_CLOEXEC) < 0) return errno;
    report = kFdReport;
    ::close_range(kFdReport + 1, ~0U, 0);
    if (beside->inside && (beside->inside->kinds & CLONE_NEWPID) != 0) {
      const pid_t inner = ::_Fork();
      if (inner < 0) return errno;
      if (inner > 0) MirrorEnd(inner, report);
    }
    return 0;
  }

  // As a shell goes through PATH: what is there but may not be executed is what is told.
  int Execute() const override {
    int told = ENOENT;
    for (char* program : programs) {
      if (program == nullptr) break;
      ::execve(program, argv.data(), env.data());
      if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return errno;
      if (errno == EACCES) told = EACCES;
    }
    return told;
  }

 private:
  int Enter() const {
    if (beside->inside) return Join(*beside->inside);
    return ::fchdir(beside->cwd.get()) == 0 ? 0 : errno;
  }

  // Only children are in a PID namespace that was joined: this process waits, deaf to the signals
  // of its group and of the terminal, which reach the child as well, and ends as the child ends.
  [[noreturn]] static void MirrorEnd(pid_t inner, int report) {
    ::close(report);
    int status = 0;
    while (::waitpid(inner, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
    UnblockSignals();
    (void)::raise(WTERMSIG(status));
    ::_exit(128 + WTERMSIG(status));
  }
};

Result<int> Fork(ExecChild& child, int birthplace) {
  child.born = birthplace >= 0;
  return Spawn(child, birthplace, "cannot start " + std::string(child.argv[0]));
}

struct ExecPipe {
  UniqueFd ours;
  UniqueFd theirs;  // above the child's descriptors
};
Result<ExecPipe> MakePipe(bool to_child) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno("pipe", errno);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  UniqueFd& ours = to_child ? writer : reader;
  LAUNCH_ASSIGN_OR_RETURN(UniqueFd theirs, AboveTargets((to_child ? reader : writer).get()));
  (void)::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  return ExecPipe{std::move(ours), std::move(theirs)};
}

winsize SizeOf(const TerminalSize& size) {
  winsize window{};
  window.ws_row = static_cast<unsigned short>(size.rows);
  window.ws_col = static_cast<unsigned short>(size.columns);
  return window;
}

Result<UniqueFd> OpenTerminal(const TerminalSize& size, std::string& slave) {
  UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  char name[128];
  if (!master || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0 ||
      ::ptsname_r(master.get(), name, sizeof name) != 0) {
    return FailErrno("open a terminal", errno);
  }
  const winsize window = SizeOf(size);
  (void)::ioctl(master.get(), TIOCSWINSZ, &window);
  slave = name;
  return master;
}

std::vector<std::string> ShellOf(const ExecPlace& place, bool terminal,
                                 std::vector<std::string>& env) {
  if (!terminal) return {"/bin/bash", "--norc"};
  Set(env, "PS1",
      "job " + std::to_string(place.key.job.value) + " rank " + std::to_string(place.rank) +
          " \\w\\$ ");
  return {"/bin/bash", "--norc", "-i"};
}

}  // namespace

Result<ExecProcess> ExecProcess::Start(const ExecPlace& place, const ExecCommand& command) {
  PosixFileSystem files;
  const AttemptDir dir(place.attempt_dir, files);
  LAUNCH_ASSIGN_OR_RETURN(Beside beside, LookAtRank(dir, place.rank));
  LAUNCH_ASSIGN_OR_RETURN(const auto accepted, dir.ReadAccept());
  if (!accepted) return EndedRank(place.rank);
  beside.account = (*accepted).account;
  const bool joins = place.container && !HasDaemon(*place.container);
  if (joins) LAUNCH_RETURN_IF_ERROR(LookInside(beside));
  std::vector<std::string>& env = beside.env;
  const bool terminal = command.terminal.has_value();
  if (terminal) Set(env, "TERM", command.term.empty() ? "dumb" : command.term);
  Set(env, kExecMark, place.attempt_dir);
  std::vector<std::string> argv =
      command.argv.empty() ? ShellOf(place, terminal, env) : command.argv;
  if (place.container && !joins) {
    argv = ExecInDaemon(*place.container, ContainerName(place.key, place.rank), argv, terminal);
  } else if (joins && !beside.inside) {
    const std::string own = beside.account ? dir.OwnPath(place.rank) : "";
    LAUNCH_RETURN_IF_ERROR(EnterAgain(place, beside.account, own, argv, env));
  }
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> programs,
                          ProgramsOf(argv[0], beside, place.container.has_value()));

  ExecProcess process;
  process.place_ = place;
  ExecChild child;
  child.beside = &beside;
  if (beside.account) child.ids = IdsOf(*beside.account);
  if (terminal) {
    LAUNCH_ASSIGN_OR_RETURN(process.terminal_, OpenTerminal(*command.terminal, child.slave));
    // Made by devpts as root's; programs open it again by its name.
    if (beside.account &&
        ::lchown(child.slave.c_str(), beside.account->uid, static_cast<gid_t>(-1)) != 0) {
      return FailErrno("chown " + child.slave, errno);
    }
  } else {
    LAUNCH_RETURN_IF_ERROR(process.MakePipes(child.stdio));
  }
  const UniqueFd lock(::open(dir.LockPath().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock) return EndedRank(place.rank);
  if (!beside.account || place.cgroups.level == Containment::kTree) {
    LAUNCH_ASSIGN_OR_RETURN(child.lock, AboveTargets(lock.get()));
  }
  JoinPointers(programs, child.programs);
  JoinPointers(argv, child.argv);
  JoinPointers(env, child.env);

  const AllocationCgroup cgroup(place.cgroups, place.key);
  LAUNCH_RETURN_IF_ERROR(cgroup.CreateExec(place.id));
  child.cgroups = cgroup.ExecProcs(place.id);
  JoinPointers(child.cgroups, child.cgroup_files);
  const UniqueFd birthplace(child.cgroups.empty() ? -1
                                                  : shim::OpenBirthplace(child.cgroups[0].c_str()));
  auto pid = Fork(child, birthplace.get());
  if (!pid && birthplace) pid = Fork(child, -1);
  if (!pid) {
    cgroup.EndExec(place.id);
    return Unexpected(std::move(pid).error());
  }
  LAUNCH_RETURN_IF_ERROR(process.Watch(*pid));
  // The end of an attempt begins with its tombstone: either it is seen here, or whoever wrote it
  // sees this process.
  if (const auto tombstone = dir.ReadTombstone(); !tombstone || *tombstone) {
    return EndedRank(place.rank);
  }
  return process;
}

Result<void> ExecProcess::MakePipes(UniqueFd (&stdio)[3]) {
  LAUNCH_ASSIGN_OR_RETURN(ExecPipe in, MakePipe(true));
  LAUNCH_ASSIGN_OR_RETURN(ExecPipe out, MakePipe(false));
  LAUNCH_ASSIGN_OR_RETURN(ExecPipe err, MakePipe(false));
  in_ = std::move(in.ours);
  out_ = std::move(out.ours);
  err_ = std::move(err.ours);
  stdio[0] = std::move(in.theirs);
  stdio[1] = std::move(out.theirs);
  stdio[2] = std::move(err.theirs);
  return {};
}

Result<void> ExecProcess::Watch(int pid) {
  pid_ = pid;
  pidfd_ = OpenPidFd(pid);
  if (pidfd_) return {};
  const int error_number = errno;
  Kill();
  (void)Reap();
  return FailErrno("pidfd_open", error_number);
}

ExecProcess::~ExecProcess() {
  if (!pidfd_ || reaped_) return;
  Kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  AllocationCgroup(place_.cgroups, place_.key).EndExec(place_.id);
}

void ExecProcess::CloseIn() {
  if (!terminal_) {
    in_.Reset();
    return;
  }
  termios mode{};
  const bool known = ::tcgetattr(terminal_.get(), &mode) == 0;
  const char end = known ? static_cast<char>(mode.c_cc[VEOF]) : '\4';
  (void)!::write(terminal_.get(), &end, 1);
}

void ExecProcess::Resize(const TerminalSize& size) const {
  if (!terminal_) return;
  const winsize window = SizeOf(size);
  (void)::ioctl(terminal_.get(), TIOCSWINSZ, &window);
}

void ExecProcess::Signal(int signal) const {
  if (pid_ > 0 && !reaped_) (void)::kill(-pid_, signal);
}

void ExecProcess::Kill() const {
  Signal(SIGKILL);
  AllocationCgroup(place_.cgroups, place_.key).KillExec(place_.id);
}

ExecEnd ExecProcess::Reap() {
  // Before it is reaped: until then nobody else has its number.
  (void)::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  AllocationCgroup(place_.cgroups, place_.key).EndExec(place_.id);
  ExecEnd end;
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    end.code = 128 + end.signal;
  } else {
    end.code = WEXITSTATUS(status);
  }
  return end;
}

}  // namespace launch::agent
