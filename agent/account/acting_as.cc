#include "agent/account/acting_as.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace launch::agent {
namespace {

// glibc's setgroups changes all threads; the kernel's own call changes this one.
bool SetThreadGroups(const std::vector<gid_t>& groups) {
  return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

// The calls tell no error, only what was set before.
bool SetThreadIds(uid_t uid, gid_t gid) {
  // As root first: a user may not choose the group.
  (void)::setfsuid(::geteuid());
  (void)::setfsgid(gid);
  (void)::setfsuid(uid);
  return static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == uid &&
         static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == gid;
}

// The rights that this thread uses; those that it may take back stay.
bool SetThreadRights(std::uint64_t rights) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  sets[0].effective = static_cast<std::uint32_t>(rights);
  sets[1].effective = static_cast<std::uint32_t>(rights >> 32);
  return ::syscall(SYS_capset, &header, sets) == 0;
}

// One of the thread's sets of rights; none where the kernel does not tell.
std::uint64_t ReadRights(__u32 __user_cap_data_struct::*set) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, sets) != 0) return 0;
  return sets[0].*set | static_cast<std::uint64_t>(sets[1].*set) << 32;
}

std::uint64_t ThreadRights() { return ReadRights(&__user_cap_data_struct::effective); }

std::uint64_t PermittedRights() { return ReadRights(&__user_cap_data_struct::permitted); }

// The way back. With any other right of root's the kernel lets a thread pass where the account may
// not: CAP_SYS_PTRACE into the directories of other users' processes, CAP_SYS_RESOURCE over quotas.
constexpr std::uint64_t kKept = 1ULL << CAP_SETUID | 1ULL << CAP_SETGID;

std::vector<gid_t> ThreadGroups() {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  return groups;
}

ActingAs::Before Now() {
  return {static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))),
          static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))), ThreadGroups(), ThreadRights()};
}

bool Become(const LocalAccount& account) {
  return SetThreadGroups({account.groups.begin(), account.groups.end()}) &&
         SetThreadIds(account.uid, account.gid) && SetThreadRights(kKept) &&
         ThreadRights() == kKept;
}

// Nothing may be done as root that was meant to be done as the account, or the other way round.
void GoBack(const ActingAs::Before& before) {
  if (!SetThreadIds(before.uid, before.gid) || !SetThreadGroups(before.groups) ||
      !SetThreadRights(before.rights)) {
    std::abort();
  }
}

}  // namespace

ActingAs::ActingAs(const std::optional<LocalAccount>& account) {
  if (!account || account->uid == ::geteuid()) return;
  before_ = Now();
  if (!Become(*account)) std::abort();
}

ActingAs::~ActingAs() {
  if (before_) GoBack(*before_);
}

// The groups stay the account's: root needs none.
ActingAsSelf::ActingAsSelf() {
  const ActingAs::Before before = Now();
  if (before.uid == ::geteuid()) return;
  before_ = before;
  if (!SetThreadIds(::geteuid(), ::getegid()) || !SetThreadRights(PermittedRights())) std::abort();
}

ActingAsSelf::~ActingAsSelf() {
  if (before_) GoBack(*before_);
}

Result<void> ActingAs::Try(const LocalAccount& account) {
  if (account.uid == ::geteuid()) return {};
  const Before before = Now();
  const bool could = Become(account);
  GoBack(before);
  if (could) return {};
  return Fail(ErrorCode::kPermissionDenied,
              "this agent may not act as account " + account.name + " (uid " +
                  std::to_string(account.uid) + ")",
              "it needs CAP_SETUID and CAP_SETGID, and in a container a mapping of that uid");
}

}  // namespace launch::agent
