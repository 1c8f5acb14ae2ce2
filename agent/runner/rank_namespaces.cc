#include "agent/runner/rank_namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "agent/runner/process.h"
#include "agent/runner/rank_env.h"
#include "agent/runner/small_files.h"

namespace launch::agent {
namespace {

struct NamespaceKind {
  const char* name;
  int flag;
};
// Control groups are joined by name, and clocks differ in none of the runtimes.
constexpr std::array kKinds = {
    NamespaceKind{"user", CLONE_NEWUSER}, NamespaceKind{"mnt", CLONE_NEWNS},
    NamespaceKind{"pid", CLONE_NEWPID},   NamespaceKind{"ipc", CLONE_NEWIPC},
    NamespaceKind{"uts", CLONE_NEWUTS},   NamespaceKind{"net", CLONE_NEWNET}};

bool SameNamespace(const std::string& proc, const char* name) {
  struct stat here {};
  struct stat there {};
  const std::string path = std::string("/ns/") + name;
  if (::stat(("/proc/self" + path).c_str(), &here) != 0) return true;
  if (::stat((proc + path).c_str(), &there) != 0) return true;
  return here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// The runtime's own processes still have the variables by which it is told those of the program.
bool IsRuntime(const std::vector<std::string>& env) {
  return ValueOf(env, "LAUNCH_JOB_ID").empty() ||
         std::any_of(env.begin(), env.end(), [](const std::string& variable) {
           return variable.starts_with("APPTAINERENV_") || variable.starts_with("SINGULARITYENV_");
         });
}

}  // namespace

std::vector<std::string> ReadEnviron(int pid) {
  const std::string bytes = ReadEnvironment("/proc/" + std::to_string(pid));
  std::vector<std::string> env;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\0', at), bytes.size());
    if (end > at) env.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  return env;
}

Result<RankNamespaces> FindInside(int rank_pid) {
  for (const int pid : FamilyOf(rank_pid)) {
    const std::string proc = "/proc/" + std::to_string(pid);
    RankNamespaces inside{.pid = pid, .process = OpenPidFd(pid)};
    if (!inside.process || SameNamespace(proc, "mnt")) continue;
    inside.env = ReadEnviron(pid);
    if (IsRuntime(inside.env)) continue;
    for (const auto& [name, flag] : kKinds) {
      if (!SameNamespace(proc, name)) inside.kinds |= flag;
    }
    inside.root.Reset(::open((proc + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    inside.cwd.Reset(::open((proc + "/cwd").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    // Else the number may be another process's by now.
    if (inside.root && inside.cwd && !HasEnded(inside.process)) return inside;
  }
  return Fail(ErrorCode::kFailedPrecondition, "nothing of the rank runs in its image",
              "the image may still be fetched or unpacked: see launch logs");
}

bool MayJoin(const RankNamespaces& inside) {
  return ::geteuid() == 0 || (inside.kinds & CLONE_NEWUSER) != 0;
}

int Join(const RankNamespaces& inside) {
  if (::setns(inside.process.get(), inside.kinds) != 0) return errno;
  if (::fchdir(inside.root.get()) != 0 || ::chroot(".") != 0) return errno;
  return ::fchdir(inside.cwd.get()) == 0 ? 0 : errno;
}

}  // namespace launch::agent
