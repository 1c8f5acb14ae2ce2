// Finds and signals the children of this process, and what is below them, without allocating.
#pragma once

#include <sys/types.h>

namespace launch::shim {

// To each direct child. As a sub-reaper's orphans become direct children, repeating it after every
// end reaches all descendants.
void SignalChildren(int signal);

enum class Left { kAll, kOthers };

// To each direct child that is not in process group `group`, with kAll also to that group where a
// direct child is in it: the number is surely still the rank's then.
void SignalLeft(pid_t group, Left whom, int signal);

// A signal that many programs do not expect, and that ends these: where the process itself does not
// catch it (a shell, a launcher), to the processes below it that do, the uppermost of each branch,
// for what a trainer forks inherits its handlers. False, and nothing was sent: the process catches
// it, or nobody does.
bool SignalCatchersBelow(pid_t process, int signal);

}  // namespace launch::shim
