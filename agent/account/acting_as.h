// Files of a user, touched by an agent that is root as that user would touch them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "agent/account/local_account.h"

namespace launch::agent {

// While it lives, the kernel checks what this thread does with files against the account: its uid,
// gid and groups, also towards a file server, and without any right of root's but that to come
// back. Only files: the thread's user stays root, so that the account cannot end the agent by a
// signal. Nothing without an account. The scopes may be nested: each ends as it began. Programs
// started meanwhile are root's, unless they are told to become the account (ChildProcess, Spawn).
//
// access(2) asks for the real user, which stays root: use faccessat with AT_EACCESS.
class ActingAs {
 public:
  explicit ActingAs(const std::optional<LocalAccount>& account);
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;
  ~ActingAs();

  struct Before {  // what the thread was
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
    std::uint64_t rights = 0;  // its effective capabilities
  };

  // Whether the kernel lets this process act as the account: in a container it may not.
  static Result<void> Try(const LocalAccount& account);

 private:
  std::optional<Before> before_;  // absent: this process is the account
};

// While it lives, a thread that acts as an account is what the process is again: for what is done
// for the account, not as it.
class ActingAsSelf {
 public:
  ActingAsSelf();
  ActingAsSelf(const ActingAsSelf&) = delete;
  ActingAsSelf& operator=(const ActingAsSelf&) = delete;
  ~ActingAsSelf();

 private:
  std::optional<ActingAs::Before> before_;  // absent: it acted as nobody else
};

}  // namespace launch::agent
