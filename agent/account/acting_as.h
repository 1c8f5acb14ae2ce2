// Files of a user, touched by an agent that is root as that user would touch them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "agent/account/local_account.h"

namespace launch::agent {

// While it lives, the kernel checks what this thread does with files against the account: its uid,
// gid and groups, also towards a file server, and without root's right to pass every check. Only
// files: the thread stays root for signals, so that the account cannot end the agent by it. Nothing
// without an account. Programs started meanwhile are root's: AsAccount is for those.
//
// access(2) asks for the real user, which stays root: use faccessat with AT_EACCESS.
class ActingAs {
 public:
  explicit ActingAs(const std::optional<LocalAccount>& account);
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;
  ~ActingAs();

  // Whether the kernel lets this process act as the account: in a container it may not.
  static Result<void> Try(const LocalAccount& account);

 private:
  bool acts_ = false;
  std::vector<gid_t> groups_;  // of before
};

}  // namespace launch::agent
