#include "agent/runner/shim_launch.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "agent/runner/process.h"

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

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  Result<void> Give(int source, int target) {
    UniqueFd high(::fcntl(source, F_DUPFD_CLOEXEC, kSourceFloor));
    if (!high) return FailErrno("dup", errno);
    ::posix_spawn_file_actions_adddup2(&actions_, high.get(), target);
    sources_.push_back(std::move(high));
    return {};
  }
  void Null(int target, int flags) {
    ::posix_spawn_file_actions_addopen(&actions_, target, "/dev/null", flags, 0);
  }
  void CloseFrom(int first) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, first); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
  std::vector<UniqueFd> sources_;
};

}  // namespace

Result<UniqueFd> OpenLog(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return FailErrno("open " + path, errno);
  return fd;
}

Result<StartedShim> StartShim(const ShimStart& start) {
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

  SpawnActions actions;
  actions.Null(0, O_RDONLY);
  actions.Null(1, O_WRONLY);
  actions.Null(2, O_WRONLY);
  LAUNCH_RETURN_IF_ERROR(actions.Give(memory.get(), shim::kFdSpec));
  LAUNCH_RETURN_IF_ERROR(actions.Give(directory.get(), shim::kFdDirectory));
  LAUNCH_RETURN_IF_ERROR(actions.Give(out.get(), shim::kFdOut));
  LAUNCH_RETURN_IF_ERROR(actions.Give(err ? err.get() : out.get(), shim::kFdErr));
  int target = shim::kFdFirstLock;
  for (const int fd : start.locks) LAUNCH_RETURN_IF_ERROR(actions.Give(fd, target++));
  for (const int fd : start.ports) LAUNCH_RETURN_IF_ERROR(actions.Give(fd, target++));
  actions.CloseFrom(target);

  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const std::unique_ptr<posix_spawnattr_t, int (*)(posix_spawnattr_t*)> owner(
      &attributes, ::posix_spawnattr_destroy);
  sigset_t none;
  ::sigemptyset(&none);
  sigset_t all;
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::string name = "launch-shim";
  char* const argv[] = {name.data(), nullptr};
#ifdef LAUNCH_FAILPOINTS
  const char* const point = std::getenv("LAUNCH_FAILPOINT");
  std::string armed = std::string("LAUNCH_FAILPOINT=") + (point == nullptr ? "" : point);
  char* const env[] = {armed.data(), nullptr};
#else
  char* const env[] = {nullptr};
#endif
  pid_t pid = 0;
  const int error_number =
      ::posix_spawn(&pid, start.shim_path.c_str(), actions.get(), &attributes, argv, env);
  if (error_number != 0) return FailErrno("start " + start.shim_path, error_number);
  return StartedShim{pid, OpenPidFd(pid)};
}

}  // namespace launch::agent
