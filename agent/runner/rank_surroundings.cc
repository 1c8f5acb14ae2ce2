#include "agent/runner/rank_surroundings.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "agent/runner/process.h"
#include "agent/runner/rank_env.h"
#include "agent/runner/small_files.h"

namespace launch::agent {
namespace {

std::vector<std::string> ReadEnviron(const std::string& proc) {
  const std::string bytes = ReadText(proc + "/environ");
  std::vector<std::string> env;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\0', at), bytes.size());
    if (end > at) env.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  return env;
}

// "Max open files            1024                 unlimited            files" of /proc/PID/limits.
rlimit LimitIn(const std::string& limits, const std::string& name) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  const std::size_t line = limits.find(name + " ");
  if (line == std::string::npos) return limit;
  std::istringstream words(limits.substr(line + name.size(), 64));
  for (rlim_t* one : {&limit.rlim_cur, &limit.rlim_max}) {
    std::string word;
    words >> word;
    *one = word == "unlimited" ? RLIM_INFINITY : std::strtoull(word.c_str(), nullptr, 10);
  }
  return limit;
}

}  // namespace

Unexpected EndedRank(Rank rank) {
  return Fail(ErrorCode::kFailedPrecondition,
              "rank " + std::to_string(rank) + " does not run any more");
}

// The environment that the kernel keeps of the rank's start: what its activation scripts set is in
// it, and secrets, which nobody else keeps. A program may write over it (process titles).
Result<Beside> LookAtRank(const AttemptDir& dir, Rank rank) {
  const RankFiles files = dir.ReadRank(rank);
  if (!files.rank) return EndedRank(rank);
  const int pid = static_cast<int>(files.rank->pid);
  const UniqueFd process = OpenPidFd(pid);
  if (!process || StartTicksOf(pid) != files.rank->start_ticks) return EndedRank(rank);
  const std::string proc = "/proc/" + std::to_string(pid);
  Beside beside;
  beside.env = ReadEnviron(proc);
  beside.cwd.Reset(::open((proc + "/cwd").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!beside.cwd) return FailErrno("the working directory of rank " + std::to_string(rank), errno);
  std::error_code unknown;
  beside.cwd_path = std::filesystem::read_symlink(proc + "/cwd", unknown).string();
  if (::sched_getaffinity(pid, sizeof beside.cpus, &beside.cpus) != 0) CPU_ZERO(&beside.cpus);
  // prlimit(2) of another account's process needs a right that root of a container may lack.
  const std::string limits = ReadText(proc + "/limits");
  if (limits.empty()) return EndedRank(rank);
  beside.limits = {{{RLIMIT_NOFILE, LimitIn(limits, "Max open files")},
                    {RLIMIT_MEMLOCK, LimitIn(limits, "Max locked memory")},
                    {RLIMIT_CORE, LimitIn(limits, "Max core file size")}}};
  beside.no_new_privileges = ReadText(proc + "/status").find("NoNewPrivs:\t1") != std::string::npos;
  if (HasEnded(process)) return EndedRank(rank);
  if (ValueOf(beside.env, "LAUNCH_JOB_ID").empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                "the environment of rank " + std::to_string(rank) +
                    " cannot be read: its program has written over it",
                "another rank of the node may still have its own: --rank N");
  }
  return beside;
}

}  // namespace launch::agent
