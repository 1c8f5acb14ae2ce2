// A child that becomes another program, with errors of the way there told to the parent.
#pragma once

#include <string>

#include "common/error.h"
#include "common/unique_fd.h"

namespace launch::agent {

// A copy of `fd` above every descriptor number that a child is given, so that no dup2 to such a
// number overwrites a later source.
Result<UniqueFd> AboveTargets(int fd);

// What the child does between fork and exec. Everything it needs is ready before the fork.
class Becoming {
 public:
  // Runs in the child of a process with threads, all signals blocked: only async-signal-safe calls,
  // nothing allocates. Ends with execve; returns only when something failed, with the errno.
  // `report` stays open until the exec; who needs its number moves it (close-on-exec) and says so.
  virtual int Become(int& report) const = 0;
  // Whether it may share the memory of its parent until the exec, as after vfork: then it starts
  // sooner, and may neither change its credentials nor write to what it is given.
  virtual bool SharesMemory() const { return false; }

 protected:
  ~Becoming() = default;
};

// Every signal as a new program expects it; none is blocked after UnblockSignals.
void ResetHandlers();
void UnblockSignals();

// The pid, once the other program is executed: nothing of this process is open in it then. Born in
// the cgroup `birthplace` (agent/shim/cgroup_birth.h), or -1. `what` is named in the error.
Result<int> Spawn(const Becoming& child, int birthplace, const std::string& what);

}  // namespace launch::agent
