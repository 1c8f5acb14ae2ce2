// Children that are born in their cgroup. To move a process there afterwards, by a write to
// cgroup.procs, waits for an RCU grace period: 10 ms on the mean where a fork takes 1
// (docs/performance.md).
#pragma once

#include <sys/types.h>

namespace launch::shim {

// The directory of a cgroup v2 "cgroup.procs" file, to be born in; -1 when it is another file (v1
// takes "tasks", which moves a single thread without that wait) or cannot be opened.
int OpenBirthplace(const char* procs_file);

// Like fork, but the child is born in the cgroup v2 directory `birthplace`, and no atfork handler
// runs: the child of a process with threads may only make async-signal-safe calls. -1 with errno
// when the kernel cannot (before Linux 5.7) or may not: fork and join by a write then.
pid_t ForkInto(int birthplace);

// Like vfork, with the child born in `birthplace` (-1: where the caller is): the child shares this
// memory and runs `run(argument)` on a stack of its own, and the calling thread waits until it
// executes another program or ends, so that a large process is not copied for it. `run` does not
// return, calls nothing that changes credentials, and writes nothing that the caller does not
// expect. -1 with errno when the kernel or this build cannot: fork then.
pid_t VforkInto(int birthplace, void (*run)(void*), void* argument);

// Writes "0" (the caller, which has one thread) into each cgroup.procs or tasks file; 0 or the
// errno of the first failure.
int JoinCgroups(char* const* procs_files);

}  // namespace launch::shim
