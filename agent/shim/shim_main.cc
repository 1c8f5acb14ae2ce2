// launch-shim: supervises one rank so that it survives its agent. One thread, no allocation once
// the spec is mapped. Behaviour is the table of shim_step.h; this file only carries it out.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "agent/shim/cgroup_birth.h"
#include "agent/shim/shim_child.h"
#include "agent/shim/shim_children.h"
#include "agent/shim/shim_lease.h"
#include "agent/shim/shim_record.h"
#include "agent/shim/shim_spec.h"
#include "agent/shim/shim_step.h"
#include "common/failpoint.h"

namespace launch::shim {
namespace {

std::int64_t BootMs() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

std::int64_t ToMs(const timeval& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1000 + time.tv_usec / 1000;
}

void ReadBootId(char (&out)[kBootIdBytes]) {
  const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t got = ::read(fd, out, sizeof out - 1);
  ::close(fd);
  for (ssize_t i = 0; i < got; ++i) {
    if (out[i] == '\n') out[i] = '\0';
  }
}

// Field 22 of /proc/PID/stat; 0 when it cannot be read.
std::uint64_t StartTicks(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (got <= 0) return 0;
  text[got] = '\0';
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return 0;
  for (int field = 2; field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return 0;
  }
  return std::strtoull(at + 1, nullptr, 10);
}

// 0 or an errno; writes everything or fails.
int WriteAt(int fd, const void* data, std::size_t size, std::int64_t offset) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = ::pwrite(fd, bytes, size, offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return wrote < 0 ? errno : EIO;
    bytes += wrote;
    size -= static_cast<std::size_t>(wrote);
    offset += wrote;
  }
  return 0;
}

std::uint64_t SizeOf(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

class Shim {
 public:
  int Run();

 private:
  int Prepare();
  int PrepareControl();
  void Handle(Event event);
  bool ForkIntoCgroup();
  void Fork();
  void NoteStarted();
  void WriteRecord();
  void ArmRetry();
  void ReapChildren();
  void OnExecPipe();
  void OnCommands();
  void Note(const Command& command);
  void FillEnd(int wait_status, const rusage& usage);
  void OnLease();
  void WaitOnce();

  SpecView spec_;
  Lease lease_;
  State state_ = State::kPreparing;
  int start_fd_ = -1;
  int exit_fd_ = -1;
  int control_fd_ = -1;
  int signal_fd_ = -1;
  int timer_fd_ = -1;
  int exec_fd_ = -1;  // read end of the close-on-exec pipe
  pid_t rank_ = -1;   // -1 once reaped: its number may belong to another then
  pid_t group_ = -1;  // the rank's process group, which may outlive it
  bool killing_ = false;
  Command command_{};  // the one being handled
  ExitRecord exit_{};
};

int Shim::PrepareControl() {
  if (::mkfifoat(kFdDirectory, "control", 0600) != 0) return errno;
  // Opened for writing too, so that it never reads as closed while no agent is there.
  control_fd_ = ::openat(kFdDirectory, "control", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (control_fd_ < 0) return errno;
  sigset_t all;
  ::sigfillset(&all);
  if (::sigprocmask(SIG_SETMASK, &all, nullptr) != 0) return errno;
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  signal_fd_ = ::signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd_ < 0) return errno;
  timer_fd_ = ::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  return timer_fd_ < 0 ? errno : 0;
}

// Everything that must be durable before a rank may exist; 0 or an errno.
int Shim::Prepare() {
  if (const int error_number = OpenSpec(kFdSpec, spec_); error_number != 0) return error_number;
  const SpecBlock& block = *spec_.block;
  ::close(kFdSpec);
  (void)::close_range(3, kFdSpec - 1, 0);
  const int first_port = kFdFirstLock + static_cast<int>(block.locks);
  for (int fd = kFdDirectory; fd < first_port + static_cast<int>(block.ports); ++fd) {
    const bool lock = fd >= kFdFirstLock && fd < first_port;
    const bool inherited = lock && (block.flags & kShimKeepsLocks) == 0;
    if (::fcntl(fd, F_SETFD, inherited ? 0 : FD_CLOEXEC) != 0) return errno;
  }
  // Secrets are in our memory until the rank has them.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return errno;
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return errno;
  (void)::prctl(PR_SET_NAME, "launch-shim", 0, 0, 0);
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    (void)!::write(fd, "-999", 4);  // refused without privilege: then we take our chance
    ::close(fd);
  }
  if (const int error_number = JoinCgroups(spec_.shim_cgroups); error_number != 0) {
    return error_number;
  }
  if (const int error_number = PrepareControl(); error_number != 0) return error_number;

  if (const int error_number = lease_.Watch(kFdDirectory, block.lease_end_ms, block.lease_grace_ms);
      error_number != 0) {
    return error_number;
  }
  lease_.OpenKill(spec_.rank_cgroups[0]);

  exit_fd_ = ::openat(kFdDirectory, "exit", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (exit_fd_ < 0) return errno;
  if (const int error_number = ::posix_fallocate(exit_fd_, 0, kExitReserveBytes);
      error_number != 0) {
    return error_number;
  }
  start_fd_ = ::openat(kFdDirectory, "start", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (start_fd_ < 0) return errno;
  StartRecord start;
  ReadBootId(start.boot_id);
  std::memcpy(exit_.boot_id, start.boot_id, sizeof exit_.boot_id);
  start.shim_pid = ::getpid();
  start.shim_start_ticks = StartTicks(::getpid());
  Seal(start);
  if (const int error_number = WriteAt(start_fd_, &start, sizeof start, 0); error_number != 0) {
    return error_number;
  }
  if (::fdatasync(exit_fd_) != 0 || ::fdatasync(start_fd_) != 0 || ::fsync(kFdDirectory) != 0) {
    return errno;
  }
  return 0;
}

// Sets rank_ as fork returns it; whether the child is in the first of its cgroups from the start.
bool Shim::ForkIntoCgroup() {
  const int birthplace =
      spec_.rank_cgroups[0] == nullptr ? -1 : OpenBirthplace(spec_.rank_cgroups[0]);
  if (birthplace >= 0) {
    rank_ = ForkInto(birthplace);
    if (rank_ != 0) ::close(birthplace);  // close-on-exec in the child
    if (rank_ >= 0) return true;
  }
  rank_ = ::fork();
  return false;
}

void Shim::Fork() {
  int ends[2];
  if (lease_.IsOver(BootMs())) {
    exit_.kind = EndKind::kFailedToStart;
    exit_.stage = Stage::kLease;
    exit_.code = ETIME;
    return Handle(Event::kForkFailed);
  }
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    exit_.kind = EndKind::kFailedToStart;
    exit_.stage = Stage::kFork;
    exit_.code = errno;
    return Handle(Event::kForkFailed);
  }
  exit_.started_boot_ms = BootMs();
  const bool born = ForkIntoCgroup();
  if (rank_ < 0) {
    exit_.kind = EndKind::kFailedToStart;
    exit_.stage = Stage::kFork;
    exit_.code = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return Handle(Event::kForkFailed);
  }
  if (rank_ == 0) {
    const ChildFailure failure = BecomeRank(spec_, born);
    (void)!::write(ends[1], &failure, sizeof failure);
    ::_exit(127);
  }
  ::close(ends[1]);
  exec_fd_ = ends[0];
  group_ = rank_;
  LAUNCH_FAILPOINT("launch.9.after");
}

// The pipe closes by itself when execve succeeds, and holds a failure otherwise.
void Shim::OnExecPipe() {
  ChildFailure failure;
  const ssize_t got = ::read(exec_fd_, &failure, sizeof failure);
  if (got < 0 && errno == EINTR) return;
  ::close(exec_fd_);
  exec_fd_ = -1;
  if (got == static_cast<ssize_t>(sizeof failure)) {
    exit_.kind = EndKind::kFailedToStart;
    exit_.stage = failure.stage;
    exit_.code = failure.error_number;
    exit_.ended_boot_ms = BootMs();
    Handle(Event::kExecFailed);
  } else {
    Handle(Event::kExecSucceeded);
  }
}

void Shim::NoteStarted() {
  RankRecord record;
  record.pid = rank_;
  record.start_ticks = StartTicks(rank_);
  record.started_boot_ms = exit_.started_boot_ms;
  Seal(record);
  // Not needed for recovery of the exit: a full disk must not end a rank that runs.
  (void)WriteAt(start_fd_, &record, sizeof record, kRankRecordOffset);
  ::close(start_fd_);  // the agent watches for this close
  start_fd_ = -1;
  const bool switched = (spec_.block->flags & kSwitchIds) != 0;
  // The rank has its environment; nobody needs the secrets any longer.
  CloseSpec(spec_);
  // An agent without privilege that comes back knows us by the lock we hold, and the kernel shows
  // it the files of what can be dumped alone. Where ranks are of other accounts, none of them gets
  // to look.
  if (!switched) (void)::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

void Shim::FillEnd(int wait_status, const rusage& usage) {
  exit_.ended_boot_ms = BootMs();
  exit_.user_ms = ToMs(usage.ru_utime);
  exit_.system_ms = ToMs(usage.ru_stime);
  exit_.max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  if (exit_.kind == EndKind::kFailedToStart) return;
  if (WIFEXITED(wait_status)) {
    exit_.kind = EndKind::kExited;
    exit_.code = WEXITSTATUS(wait_status);
  } else {
    exit_.kind = EndKind::kSignalled;
    exit_.code = WTERMSIG(wait_status);
    exit_.core = WCOREDUMP(wait_status) ? 1 : 0;
  }
}

void Shim::WriteRecord() {
  LAUNCH_FAILPOINT("exit.1.before");
  exit_.out_end = SizeOf(kFdOut);
  exit_.err_end = SizeOf(kFdErr);
  Seal(exit_);
  const bool durable =
      WriteAt(exit_fd_, &exit_, sizeof exit_, 0) == 0 && ::fdatasync(exit_fd_) == 0;
  if (!durable) return Handle(Event::kRecordFailed);
  LAUNCH_FAILPOINT("exit.1.after");
  ::close(exit_fd_);  // the agent watches for this close
  exit_fd_ = -1;
  Handle(Event::kRecordWritten);
}

void Shim::ArmRetry() {
  const itimerspec in_one_second{{0, 0}, {1, 0}};
  (void)::timerfd_settime(timer_fd_, 0, &in_one_second, nullptr);
}

void Shim::ReapChildren() {
  for (;;) {
    int wait_status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &wait_status, WNOHANG, &usage);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return Handle(Event::kNoChildLeft);
    if (pid == 0) break;
    if (pid == rank_) {
      if (exec_fd_ >= 0) OnExecPipe();  // its last word comes before its end
      FillEnd(wait_status, usage);
      rank_ = -1;
      Handle(Event::kRankEnded);
    }
  }
  if (killing_) SignalChildren(SIGKILL);
}

void Shim::Note(const Command& command) {
  if (exit_.signal_count >= kMaxOurSignals || rank_ < 0) return;
  exit_.signals[exit_.signal_count++] = {command.signal, command.why, BootMs()};
}

void Shim::OnCommands() {
  Command command;
  while (::read(control_fd_, &command, sizeof command) == static_cast<ssize_t>(sizeof command)) {
    if (command.magic != kMagic || command.signal < 0 || command.signal > SIGRTMAX) continue;
    command_ = command;
    switch (command.op) {
      case Op::kSignalRank:
        Handle(Event::kSignalRank);
        break;
      case Op::kSignalGroup:
        Handle(Event::kSignalGroup);
        break;
      case Op::kKillAll:
        Handle(Event::kKillAll);
        break;
      case Op::kSignalOrphans:
        Handle(Event::kSignalOrphans);
        break;
    }
  }
}

void Shim::Handle(Event event) {
  const Step step = Next(state_, event);
  state_ = step.next;
  if ((step.actions & kFork) != 0) Fork();
  if ((step.actions & kNoteStarted) != 0) NoteStarted();
  if ((step.actions & kSendToRank) != 0 && rank_ > 0) {
    Note(command_);
    if (!SignalCatchersBelow(rank_, command_.signal)) (void)::kill(rank_, command_.signal);
  }
  if ((step.actions & kSendToGroup) != 0 && rank_ > 0) {
    Note(command_);
    // The rank leads its session, so its number is its group's, and it is ours until reaped.
    (void)::kill(-rank_, command_.signal);
  }
  if ((step.actions & kSendToChildren) != 0) SignalLeft(group_, Left::kAll, command_.signal);
  if ((step.actions & kSendToOrphans) != 0) SignalLeft(group_, Left::kOthers, command_.signal);
  if ((step.actions & kKillChildren) != 0) {
    killing_ = true;
    command_.signal = SIGKILL;
    Note(command_);
    SignalChildren(SIGKILL);
  }
  if ((step.actions & kWriteRecord) != 0) WriteRecord();
  if ((step.actions & kArmRetry) != 0) ArmRetry();
  if ((step.actions & kReap) != 0) ReapChildren();
}

// Like a stop, but by nobody's order.
void Shim::OnLease() {
  const Lease::Due due = lease_.OnTimer(BootMs());
  if (due == Lease::Due::kNothing) return;
  command_.why = kWhyLease;
  if (due == Lease::Due::kTerminate) {
    command_.signal = SIGTERM;
    return Handle(Event::kSignalGroup);
  }
  Handle(Event::kKillAll);
  lease_.KillCgroup();
}

void Shim::WaitOnce() {
  pollfd waits[] = {{signal_fd_, POLLIN, 0},
                    {control_fd_, POLLIN, 0},
                    {timer_fd_, POLLIN, 0},
                    {exec_fd_, POLLIN, 0},  // a negative descriptor is skipped
                    {lease_.timer(), POLLIN, 0}};
  if (::poll(waits, 5, -1) < 0) return;
  if (waits[3].revents != 0 && exec_fd_ >= 0) OnExecPipe();
  if (waits[1].revents != 0) OnCommands();
  if (waits[4].revents != 0) OnLease();
  if (waits[2].revents != 0) {
    std::uint64_t expirations = 0;
    (void)!::read(timer_fd_, &expirations, sizeof expirations);
    Handle(Event::kRetryDue);
  }
  if (waits[0].revents != 0) {
    signalfd_siginfo info;
    while (::read(signal_fd_, &info, sizeof info) > 0) {
    }
    ReapChildren();
  }
}

// The exit code is the errno of a failed preparation: without records, the agent has only that.
int Shim::Run() {
  LAUNCH_FAILPOINT("launch.8.before");
  const int error_number = Prepare();
  if (error_number != 0) {
    Handle(Event::kPrepareFailed);
    return error_number;
  }
  LAUNCH_FAILPOINT("launch.8.after");
  Handle(Event::kPrepared);
  while (state_ != State::kDone) WaitOnce();
  return 0;
}

}  // namespace
}  // namespace launch::shim

int main() {
  static launch::shim::Shim shim;
  return shim.Run();
}
