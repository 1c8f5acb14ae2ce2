#include "agent/runner/rank_surroundings.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "agent/account/acting_as.h"
#include "agent/runner/interpreter.h"
#include "agent/runner/process.h"
#include "agent/runner/rank_env.h"
#include "agent/runner/small_files.h"
#include "common/text.h"

namespace launch::agent {
namespace {

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
  beside.pid = pid;
  beside.env = ReadEnviron(pid);
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

Result<void> LookInside(Beside& beside) {
  LAUNCH_ASSIGN_OR_RETURN(RankNamespaces inside, FindInside(beside.pid));
  if (!MayJoin(inside)) return {};
  beside.env = inside.env;
  beside.inside = std::move(inside);
  return {};
}

Result<std::vector<std::string>> ProgramsOf(const std::string& word, const Beside& beside,
                                            bool contained) {
  const std::string path = ValueOf(beside.env, "PATH");
  if (beside.inside) {
    if (word.find('/') != std::string::npos) return std::vector<std::string>{word};
    std::vector<std::string> programs;
    for (const std::string_view directory :
         Split(path.empty() ? std::string_view(kSystemPath) : path, ':')) {
      programs.push_back(std::string(directory.empty() ? "." : directory) + "/" + word);
    }
    return programs;
  }
  const ActingAs acting(beside.account);
  auto program = FindProgram(word, path, beside.cwd_path);
  if (!program && contained) program = FindProgram(word, kSystemPath, beside.cwd_path);
  if (!program) {
    return Fail(ErrorCode::kNotFound, "cannot start " + word + ": " + program.error().message,
                program.error().hint);
  }
  return std::vector<std::string>{std::move(*program)};
}

}  // namespace launch::agent
