// Short-lived programs that probes ask: spawned with a deadline, never waited for without one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/account/spawn.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/unique_fd.h"

namespace launch::agent {

// A running program with a socket on its stdin and a pipe on its stdout, in a process group of its
// own. The destructor kills the group and waits a little; what will not die is left to init.
class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> argv;                          // argv[0] is a path
    std::optional<std::map<std::string, std::string>> env;  // unset: this process's
    bool merge_stderr = false;  // into stdout; else this process's stderr
    // Who it runs as, from before its first instruction: `env` may be the user's own, and a program
    // of root's that was given LD_PRELOAD runs the user's code as root. Absent: as this process.
    std::optional<LocalAccount> account;
    // Control groups that it joins before it becomes the account: files of one process each, "0" is
    // written to them.
    std::vector<std::string> cgroups;
    // Killed when the thread that started it ends, so also with a crash of this process.
    bool dies_with_us = false;
  };
  static tl::expected<ChildProcess, SpawnError> Spawn(const Options& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  int in() const { return in_.get(); }        // non-blocking
  int out() const { return out_.get(); }      // non-blocking
  int pidfd() const { return pidfd_.get(); }  // -1 on kernels without
  void CloseIn() { in_.Reset(); }

  // The wait status once it ended, else nothing after at most `wait`. With its end the rest of its
  // group is killed.
  std::optional<int> Reap(Millis wait);
  void Kill() const;  // SIGKILL to the group

 private:
  ChildProcess(pid_t pid, UniqueFd in, UniqueFd out);
  pid_t pid_ = -1;
  std::optional<int> status_;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd pidfd_;
};

// Kills the groups of all children that there are, and of those that are still to come: for the end
// of this process.
void EndChildProcesses();

struct Captured {
  std::string output;         // stdout and stderr in the order written, at most 1 MiB
  std::optional<int> status;  // as of waitpid; absent: killed at a deadline
};

// Who starts a program for a user, and where. Its end, when the last copy goes, ends what is left.
struct ProbeScope {
  std::vector<std::string> cgroups;  // as of ChildProcess::Options
  std::shared_ptr<const void> end;
};
// A scope for one program, from any thread; none = wherever this process is.
using MakeProbeScope = std::function<Result<ProbeScope>()>;

struct Patience {
  Millis all{};
  // `first` is the deadline until `word` is in the output, where it may come first, last or between
  // other text. Empty: there is none.
  std::string word = {};
  Millis first{};
  // NOLINTNEXTLINE(google-explicit-constructor): most programs have the one deadline.
  Patience(Millis deadline) : all(deadline) {}
  Patience(Millis deadline, std::string first_word, Millis first_deadline)
      : all(deadline), word(std::move(first_word)), first(first_deadline) {}
};

// Runs to its end or as long as patience lasts, whichever comes first, and its process group no
// longer: no grandchild is waited for. `cancel` ends it early, like a deadline.
tl::expected<Captured, SpawnError> RunProgram(
    const std::vector<std::string>& argv, const std::map<std::string, std::string>& env,
    const Patience& patience, const std::atomic<bool>* cancel = nullptr,
    const std::optional<LocalAccount>& account = std::nullopt, const MakeProbeScope& scope = {});

// First executable of this name in a PATH-like list; empty when there is none.
std::string FindProgram(const std::string& name, const std::string& path);

}  // namespace launch::agent
