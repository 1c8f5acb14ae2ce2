// A child of root's becomes an account, between fork and exec.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace launch::shim {

// Looked up before the fork, for a look-up allocates and may ask the network.
struct AccountIds {
  uid_t uid = 0;
  gid_t gid = 0;
  const gid_t* groups = nullptr;  // all of them, as initgroups(3) would set them
  std::size_t group_count = 0;
};

// 0, or the errno of what failed: the child must end then. Afterwards it has the account's ids and
// groups, no capability (unless the account is root's) and no way to any, nothing of the session
// keyring that it was started with, and nobody of the account traces it until its exec. Nothing is
// taken for done that was not read back.
//
// Async-signal-safe, for a child with one thread. The C library's setgroups and setres*id are not:
// they take a lock, and wait for threads of the parent, which the child of a process with threads
// does not have.
int BecomeAccount(const AccountIds& account);

// The protection of a supervisor from the kernel's out-of-memory killer is not its children's.
// Without the right to change it there was none.
void LeaveOomProtection();

}  // namespace launch::shim
