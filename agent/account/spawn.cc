#include "agent/account/spawn.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "agent/shim/cgroup_birth.h"

namespace launch::agent {
namespace {

constexpr int kSourceFloor = 400;

using Step = SpawnError::Step;

// As it goes through the pipe.
struct Failure {
  Step step;
  int error_number;
};

struct Start {
  const Becoming* child;
  int report;
};

[[noreturn]] void RunChild(void* start) {
  const auto [child, given] = *static_cast<const Start*>(start);
  int report = given;
  Failure failure{Step::kPrepare, child->Prepare(report)};
  if (failure.error_number == 0) {
    UnblockSignals();
    failure = {Step::kExec, child->Execute()};
  }
  (void)!::write(report, &failure, sizeof failure);
  ::_exit(127);
}

pid_t Fork(Start& start, int birthplace) {
  if (start.child->SharesMemory()) {
    const pid_t pid = shim::VforkInto(birthplace, RunChild, &start);
    if (pid >= 0) return pid;
  }
  return birthplace >= 0 ? shim::ForkInto(birthplace) : ::_Fork();
}

// fork's answer; no handler of the agent runs in the child, whose signals are blocked till exec.
pid_t ForkQuietly(Start& start, int birthplace) {
  sigset_t all;
  ::sigfillset(&all);
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = Fork(start, birthplace);
  const int error_number = errno;
  if (pid != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return pid;
}

}  // namespace

Result<UniqueFd> AboveTargets(int fd) {
  UniqueFd high(::fcntl(fd, F_DUPFD_CLOEXEC, kSourceFloor));
  if (!high) return FailErrno("dup", errno);
  return high;
}

void ResetHandlers() {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    (void)::sigaction(signal, &action, nullptr);  // EINVAL for those that are not ours to change
  }
}

void UnblockSignals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

tl::expected<int, SpawnError> Spawn(const Becoming& child, int birthplace,
                                    const std::string& what) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno("pipe", errno);
  const UniqueFd reader(ends[0]);
  UniqueFd low(ends[1]);
  LAUNCH_ASSIGN_OR_RETURN(UniqueFd writer, AboveTargets(low.get()));
  low.Reset();
  Start start{&child, writer.get()};
  const pid_t pid = ForkQuietly(start, birthplace);
  if (pid < 0) return FailErrno("fork", errno);
  if (pid == 0) RunChild(&start);
  writer.Reset();
  Failure failure{};
  ssize_t got = 0;
  do {
    got = ::read(reader.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  const bool executed = failure.step == Step::kExec;
  return tl::unexpected(SpawnError(
      ErrnoError(what + (executed ? "" : ", before it was executed"), failure.error_number),
      failure.step, failure.error_number));
}

}  // namespace launch::agent
