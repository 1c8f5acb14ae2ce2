#include "agent/shim/shim_child.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "agent/shim/become_account.h"
#include "agent/shim/cgroup_birth.h"

namespace launch::shim {
namespace {

ChildFailure Failed(Stage stage) { return {stage, errno}; }

int SetLimit(__rlimit_resource_t which, std::uint64_t value) {
  if (value == kLeaveLimit) return 0;
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0) return -1;
  const rlim_t wanted = value == kUnlimited ? RLIM_INFINITY : static_cast<rlim_t>(value);
  const rlimit both{wanted, wanted > limit.rlim_max ? wanted : limit.rlim_max};
  if (::setrlimit(which, &both) == 0) return 0;
  // Without the right to raise the hard limit, the best is what is allowed.
  const rlimit best{limit.rlim_max, limit.rlim_max};
  return ::setrlimit(which, &best);
}

int BindCpus(const SpecBlock& block) {
  // The kernel takes any multiple of a word; a fixed size avoids an allocation.
  return ::sched_setaffinity(0, sizeof block.cpus, reinterpret_cast<const cpu_set_t*>(block.cpus));
}

int ResetSignals() {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    // The C library keeps a few for itself and answers EINVAL.
    if (::sigaction(signal, &action, nullptr) != 0 && errno != EINVAL) return -1;
  }
  sigset_t none;
  ::sigemptyset(&none);
  return ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

int WireStdio() {
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0) return -1;
  if (::dup2(null, 0) < 0 || ::dup2(kFdOut, 1) < 0 || ::dup2(kFdErr, 2) < 0) return -1;
  if (null > 2) ::close(null);
  return 0;
}

}  // namespace

ChildFailure BecomeRank(const SpecView& spec, bool born) {
  const SpecBlock& block = *spec.block;
  if (const int error_number = JoinCgroups(spec.rank_cgroups + (born ? 1 : 0)); error_number != 0) {
    return {Stage::kCgroup, error_number};
  }
  if (::setsid() < 0) return Failed(Stage::kSession);
  LeaveOomProtection();
  if (SetLimit(RLIMIT_NOFILE, block.nofile) != 0 || SetLimit(RLIMIT_MEMLOCK, block.memlock) != 0 ||
      SetLimit(RLIMIT_CORE, block.core) != 0) {
    return Failed(Stage::kLimits);
  }
  if ((block.flags & kBindCpus) != 0 && BindCpus(block) != 0) return Failed(Stage::kAffinity);
  if ((block.flags & kSwitchIds) != 0) {
    const int error_number = BecomeAccount({block.uid, block.gid, block.groups, block.group_count});
    if (error_number != 0) return {Stage::kIds, error_number};
  }
  if (block.umask != kLeaveUmask) (void)::umask(static_cast<mode_t>(block.umask));
  if ((block.flags & kNoNewPrivs) != 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return Failed(Stage::kNoNewPrivs);
  }
  // As the rank's user: what it may not enter, it must not be started in.
  if (::chdir(spec.cwd) != 0) return Failed(Stage::kChdir);
  if (WireStdio() != 0) return Failed(Stage::kStdio);
  if (ResetSignals() != 0) return Failed(Stage::kSignals);
  ::execve(spec.argv[0], spec.argv, spec.env);
  return Failed(Stage::kExec);
}

}  // namespace launch::shim
