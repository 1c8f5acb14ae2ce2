// A child that becomes another program, with errors of the way there told to the parent.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "common/error.h"
#include "common/unique_fd.h"

namespace launch::agent {

// A copy of `fd` above every descriptor number that a child is given, so that no dup2 to such a
// number overwrites a later source.
Result<UniqueFd> AboveTargets(int fd);

// Why a child did not become the other program.
struct SpawnError : Error {
  enum class Step {
    kPrepare,  // the node's part: pipes, fork, groups, credentials
    kExec,     // the program's: it is not there, or cannot be run
  };
  // NOLINTNEXTLINE(google-explicit-constructor): what fails before the fork is an Error.
  SpawnError(Error error, Step at = Step::kPrepare, int number = 0)
      : Error(std::move(error)), step(at), error_number(number) {}
  Step step;
  int error_number;  // 0: not of a system call
};

// What the child does between fork and exec. Everything it needs is ready before the fork. Runs in
// the child of a process with threads: only async-signal-safe calls, nothing allocates.
class Becoming {
 public:
  // All signals blocked. 0, or the errno of what failed. `report` stays open until the exec; who
  // needs its number moves it (close-on-exec) and says so.
  virtual int Prepare(int& report) const = 0;
  // Ends with execve; returns only when that failed, with the errno.
  virtual int Execute() const = 0;
  // Whether it may share the memory of its parent until the exec, as after vfork: then it starts
  // sooner, and may neither change its credentials nor write to what it is given.
  virtual bool SharesMemory() const { return false; }

 protected:
  ~Becoming() = default;
};

// Every signal as a new program expects it; none is blocked after UnblockSignals, as at the exec.
void ResetHandlers();
void UnblockSignals();

// The pid, once the other program is executed: nothing of this process is open in it then. Born in
// the cgroup `birthplace` (agent/shim/cgroup_birth.h), or -1. `what` is named in the error.
tl::expected<int, SpawnError> Spawn(const Becoming& child, int birthplace, const std::string& what);

}  // namespace launch::agent
