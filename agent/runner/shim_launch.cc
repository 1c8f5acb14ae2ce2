#include "agent/runner/shim_launch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "agent/account/spawn.h"
#include "agent/runner/process.h"
#include "agent/shim/cgroup_birth.h"

namespace launch::agent {
namespace {

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

bool OpenNull(int target, int flags) {
  const int fd = ::open("/dev/null", flags);
  if (fd < 0) return false;
  if (fd == target) return true;
  const bool done = ::dup2(fd, target) == target;
  ::close(fd);
  return done;
}

// What the child needs, ready before the fork: it may not allocate.
struct ShimChild final : Becoming {
  std::vector<UniqueFd> sources;  // of the descriptors from shim::kFdSpec on
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* env = nullptr;

  bool SharesMemory() const override { return true; }

  int Prepare(int& report) const override {
    ResetHandlers();
    if (::setsid() < 0) return errno;
    if (!OpenNull(0, O_RDONLY) || !OpenNull(1, O_WRONLY) || !OpenNull(2, O_WRONLY)) return errno;
    int target = shim::kFdSpec;
    for (const UniqueFd& source : sources) {
      if (::dup2(source.get(), target++) < 0) return errno;
    }
    // Everything above the given ones is closed, the report with it when the shim is executed.
    if (::dup3(report, target, O_CLOEXEC) < 0) return errno;
    report = target;
    ::close_range(static_cast<unsigned>(target) + 1, ~0U, 0);
    return 0;
  }
  int Execute() const override {
    ::execve(path, argv, env);
    return errno;
  }
};

Result<void> Give(int source, ShimChild& child) {
  LAUNCH_ASSIGN_OR_RETURN(UniqueFd high, AboveTargets(source));
  child.sources.push_back(std::move(high));
  return {};
}

}  // namespace

Result<UniqueFd> OpenLog(const std::string& path, const std::optional<LocalAccount>& account) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return FailErrno("open " + path, errno);
  if (account && ::fchown(fd.get(), account->uid, account->gid) != 0) {
    return FailErrno("chown " + path, errno);
  }
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
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd out, OpenLog(start.directory + "/out", start.account));
  UniqueFd err;
  if (start.split_streams) {
    LAUNCH_ASSIGN_OR_RETURN(err, OpenLog(start.directory + "/err", start.account));
  }

  ShimChild child;
  LAUNCH_RETURN_IF_ERROR(Give(memory.get(), child));
  LAUNCH_RETURN_IF_ERROR(Give(directory.get(), child));
  const int output = start.output < 0 ? out.get() : start.output;
  LAUNCH_RETURN_IF_ERROR(Give(output, child));
  LAUNCH_RETURN_IF_ERROR(Give(err ? err.get() : output, child));
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
  LAUNCH_ASSIGN_OR_RETURN(const int pid, Spawn(child, birthplace, "start " + start.shim_path));
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
