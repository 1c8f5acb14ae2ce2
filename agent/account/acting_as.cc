#include "agent/account/acting_as.h"

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

}  // namespace

std::vector<gid_t> ThreadGroups() {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  return groups;
}

bool Become(const LocalAccount& account) {
  return SetThreadGroups({account.groups.begin(), account.groups.end()}) &&
         SetThreadIds(account.uid, account.gid);
}

// Nothing may be done as root that was meant to be done as the account, or the other way round.
void GoBack(const std::vector<gid_t>& groups) {
  if (!SetThreadIds(::geteuid(), ::getegid()) || !SetThreadGroups(groups)) std::abort();
}

ActingAs::ActingAs(const std::optional<LocalAccount>& account) {
  if (!account || account->uid == ::geteuid()) return;
  groups_ = ThreadGroups();
  if (!Become(*account)) std::abort();
  acts_ = true;
}

ActingAs::~ActingAs() {
  if (acts_) GoBack(groups_);
}

Result<void> ActingAs::Try(const LocalAccount& account) {
  if (account.uid == ::geteuid()) return {};
  const std::vector<gid_t> before = ThreadGroups();
  const bool could = Become(account);
  GoBack(before);
  if (could) return {};
  return Fail(ErrorCode::kPermissionDenied,
              "this agent may not act as account " + account.name + " (uid " +
                  std::to_string(account.uid) + ")",
              "it needs CAP_SETUID and CAP_SETGID, and in a container a mapping of that uid");
}

}  // namespace launch::agent
