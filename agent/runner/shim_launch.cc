#include "agent/runner/shim_launch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "agent/runner/process.h"
#include "agent/shim/cgroup_birth.h"

namespace launch::agent {
namespace {

// Sources are moved above every target number, so that no dup2 overwrites a later source.
constexpr int kSourceFloor = 400;

Result<UniqueFd> SealedMemory(const std::string& bytes) {
  UniqueFd fd(::memfd_create("launch-spec", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return FailErrno("memfd_create", errno);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return FailErrno("write launch-spec", errno);
    done += static_cast<std::size_t>(wrote);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) !=
      0) {
    return FailErrno("seal launch-spec", errno);
  }
  return fd;
}

// What the child needs, ready before the fork: it may not allocate.
struct Child {
  std::vector<UniqueFd> sources;  // of the descriptors from shim::kFdSpec on
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* env = nullptr;
  int report = -1;  // takes the errno of what failed; closed by a successful exec
};

Result<void> Give(int source, Child& child) {
  UniqueFd high(::fcntl(source, F_DUPFD_CLOEXEC, kSourceFloor));
  if (!high) return FailErrno("dup", errno);
  child.sources.push_back(std::move(high));
  return {};
}

bool OpenNull(int target, int flags) {
  const int fd = ::open("/dev/null", flags);
  if (fd < 0) return false;
  if (fd == target) return true;
  const bool done = ::dup2(fd, target) == target;
  ::close(fd);
  return done;
}

// Async-signal-safe; returns only when something failed, with the errno.
int BecomeShim(const Child& child) {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    (void)::sigaction(signal, &action, nullptr);  // EINVAL for those that are not ours to change
  }
  if (::setsid() < 0) return errno;
  if (!OpenNull(0, O_RDONLY) || !OpenNull(1, O_WRONLY) || !OpenNull(2, O_WRONLY)) return errno;
  int target = shim::kFdSpec;
  for (const UniqueFd& source : child.sources) {
    if (::dup2(source.get(), target++) < 0) return errno;
  }
  // Everything above the given ones is closed by exec, the report with it.
  if (::dup3(child.report, target, O_CLOEXEC) < 0) return errno;
  ::close_range(static_cast<unsigned>(target) + 1, ~0U, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(child.path, child.argv, child.env);
  const int error_number = errno;
  (void)!::write(target, &error_number, sizeof error_number);
  ::_exit(127);
}

// fork's answer; no handler of the agent runs in the child, whose signals are blocked till exec.
pid_t ForkQuietly(int birthplace) {
  sigset_t all;
  ::sigfillset(&all);
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = birthplace >= 0 ? shim::ForkInto(birthplace) : ::_Fork();
  const int error_number = errno;
  if (pid != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return pid;
}

// The pid of the shim once it is executed, so that nothing of the agent is open in it.
Result<int> Spawn(Child& child, int birthplace) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno("pipe", errno);
  const UniqueFd reader(ends[0]);
  UniqueFd low(ends[1]);
  // Above every target, as the sources are.
  UniqueFd writer(::fcntl(low.get(), F_DUPFD_CLOEXEC, kSourceFloor));
  if (!writer) return FailErrno("dup", errno);
  low.Reset();
  child.report = writer.get();
  const pid_t pid = ForkQuietly(birthplace);
  if (pid < 0) return FailErrno("fork", errno);
  if (pid == 0) {
    const int error_number = BecomeShim(child);
    (void)!::write(child.report, &error_number, sizeof error_number);
    ::_exit(127);
  }
  writer.Reset();
  int error_number = 0;
  ssize_t got = 0;
  do {
    got = ::read(reader.get(), &error_number, sizeof error_number);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return FailErrno("start " + std::string(child.path), error_number);
}

}  // namespace

Result<UniqueFd> OpenLog(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return FailErrno("open " + path, errno);
  return fd;
}

namespace {

Result<StartedShim> StartIn(int birthplace, const ShimStart& start) {
  shim::ShimSpec spec = start.spec;
  spec.block.locks = static_cast<std::uint32_t>(start.locks.size());
  spec.block.ports = static_cast<std::uint32_t>(start.ports.size());
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd memory, SealedMemory(shim::EncodeSpec(spec)));
  const UniqueFd directory(::open(start.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return FailErrno("open " + start.directory, errno);
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd out, OpenLog(start.directory + "/out"));
  UniqueFd err;
  if (start.split_streams) {
    LAUNCH_ASSIGN_OR_RETURN(err, OpenLog(start.directory + "/err"));
  }

  Child child;
  LAUNCH_RETURN_IF_ERROR(Give(memory.get(), child));
  LAUNCH_RETURN_IF_ERROR(Give(directory.get(), child));
  LAUNCH_RETURN_IF_ERROR(Give(out.get(), child));
  LAUNCH_RETURN_IF_ERROR(Give(err ? err.get() : out.get(), child));
  for (const int fd : start.locks) LAUNCH_RETURN_IF_ERROR(Give(fd, child));
  for (const int fd : start.ports) LAUNCH_RETURN_IF_ERROR(Give(fd, child));

  std::string name = "launch-shim";
  char* const argv[] = {name.data(), nullptr};
#ifdef LAUNCH_FAILPOINTS
  const char* const point = std::getenv("LAUNCH_FAILPOINT");
  std::string armed = std::string("LAUNCH_FAILPOINT=") + (point == nullptr ? "" : point);
  char* const env[] = {armed.data(), nullptr};
#else
  char* const env[] = {nullptr};
#endif
  child.path = start.shim_path.c_str();
  child.argv = argv;
  child.env = env;
  LAUNCH_ASSIGN_OR_RETURN(const int pid, Spawn(child, birthplace));
  return StartedShim{pid, OpenPidFd(pid)};
}

}  // namespace

Result<StartedShim> StartShim(const ShimStart& start) {
  const std::vector<std::string>& cgroups = start.spec.shim_cgroups;
  const UniqueFd birthplace(cgroups.empty() ? -1 : shim::OpenBirthplace(cgroups[0].c_str()));
  if (birthplace) {
    ShimStart born = start;
    born.spec.shim_cgroups.erase(born.spec.shim_cgroups.begin());
    if (auto started = StartIn(birthplace.get(), born)) return started;
  }
  return StartIn(-1, start);
}

}  // namespace launch::agent
