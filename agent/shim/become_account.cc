#include "agent/shim/become_account.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace launch::shim {
namespace {

bool JoinNewKeyring() {
  constexpr int kJoinSessionKeyring = 1;  // KEYCTL_JOIN_SESSION_KEYRING of linux/keyctl.h
  return ::syscall(SYS_keyctl, kJoinSessionKeyring, nullptr) >= 0;
}

// The session keyring of the parent may hold keys of root's login. As root, whose quota of keys no
// account can fill. A kernel or a container without keyrings lets nobody reach a key either.
bool LeaveKeyring() { return JoinNewKeyring() || errno == ENOSYS || errno == EPERM; }

bool SetIds(const AccountIds& account) {
  return ::syscall(SYS_setgroups, account.group_count, account.groups) == 0 &&
         ::syscall(SYS_setresgid, account.gid, account.gid, account.gid) == 0 &&
         ::syscall(SYS_setresuid, account.uid, account.uid, account.uid) == 0;
}

// Some sandboxes answer "done" to what they did not do.
bool HasIds(const AccountIds& account) {
  uid_t uids[3] = {};
  gid_t gids[3] = {};
  if (::syscall(SYS_getresuid, &uids[0], &uids[1], &uids[2]) != 0) return false;
  if (::syscall(SYS_getresgid, &gids[0], &gids[1], &gids[2]) != 0) return false;
  for (const uid_t uid : uids) {
    if (uid != account.uid) return false;
  }
  for (const gid_t gid : gids) {
    if (gid != account.gid) return false;
  }
  return ::syscall(SYS_getgroups, 0, nullptr) == static_cast<long>(account.group_count);
}

// The switch away from root takes what counts, unless securebits say otherwise; what a program
// could still inherit goes too.
bool DropCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);  // with the others, if not here
  if (::syscall(SYS_capset, &header, sets) != 0) return false;
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  for (const __user_cap_data_struct& set : sets) {
    if ((set.effective | set.permitted | set.inheritable) != 0) return false;
  }
  return true;
}

bool ForbidNewPrivileges() {
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

// Its memory is a copy of the parent's: exec makes it the account's to look at again.
bool HideMemory() {
  return ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
}

}  // namespace

int BecomeAccount(const AccountIds& account) {
  errno = 0;
  const bool became = HideMemory() && LeaveKeyring() && SetIds(account) && HasIds(account) &&
                      (account.uid == 0 || DropCapabilities()) && ForbidNewPrivileges() &&
                      HideMemory();  // again: a change of ids sets it as the system is set up
  if (!became) return errno == 0 ? EPERM : errno;
  (void)JoinNewKeyring();  // one that counts as the account's own, where its quota has room
  return 0;
}

void LeaveOomProtection() {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!::write(fd, "0", 1);
  ::close(fd);
}

}  // namespace launch::shim
