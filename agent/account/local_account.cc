#include "agent/account/local_account.h"

#include <grp.h>
#include <pwd.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace launch::agent {
namespace {

constexpr std::uint32_t kNobody = 65534;      // shared by whatever has no account of its own
constexpr std::uint32_t kNoUid = 0xffffffff;  // what the kernel takes for "leave as it is"
constexpr std::size_t kMostEntry = 1 << 20;   // bytes of one entry of the database
constexpr int kMostGroups = 65536;            // the kernel's NGROUPS_MAX

Unexpected Refused(std::string message, std::string hint) {
  return Fail(ErrorCode::kPermissionDenied, std::move(message), std::move(hint));
}

Result<std::vector<std::uint32_t>> GroupsOf(const std::string& name, gid_t gid) {
  std::vector<gid_t> groups(64);
  for (;;) {
    int count = static_cast<int>(groups.size());
    if (::getgrouplist(name.c_str(), gid, groups.data(), &count) >= 0) {
      groups.resize(static_cast<std::size_t>(count));
      return std::vector<std::uint32_t>(groups.begin(), groups.end());
    }
    if (count > kMostGroups) return Refused("account " + name + " is in too many groups", {});
    groups.resize(std::max<std::size_t>(static_cast<std::size_t>(count), 2 * groups.size()));
  }
}

}  // namespace

Result<LocalAccount> FindAccount(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  int error_number = 0;
  for (;;) {
    error_number = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (error_number != ERANGE || buffer.size() >= kMostEntry) break;
    buffer.resize(2 * buffer.size());
  }
  if (found == nullptr) {
    const bool unknown = error_number == 0 || error_number == ENOENT || error_number == ESRCH;
    if (!unknown) return FailErrno("look up account " + name, error_number);
    return Refused("there is no account " + name + " on this node",
                   "make it (useradd, or join the node to the directory), or name another one for "
                   "them in `users:` of agent.yaml");
  }
  LocalAccount account{.name = found->pw_name,
                       .uid = found->pw_uid,
                       .gid = found->pw_gid,
                       .groups = {},
                       .home = found->pw_dir,
                       .shell = *found->pw_shell == '\0' ? "/bin/sh" : found->pw_shell};
  if (!account.home.starts_with('/')) account.home = "/";
  LAUNCH_ASSIGN_OR_RETURN(account.groups, GroupsOf(account.name, found->pw_gid));
  return account;
}

Result<void> CheckAccount(const std::string& owner, const LocalAccount& account,
                          const AccountRules& rules) {
  const std::string who = "jobs of " + owner + " would run as account " + account.name;
  if (account.uid == 0) {
    if (owner == "root" && account.name == "root" && rules.root_jobs) return {};
    if (owner == "root" && account.name == "root")
      return Refused("this node runs no jobs as root",
                     "submit as another user, or set root_jobs: true in its agent.yaml");
    return Refused(who + ", which is root", "name another account for them in `users:`");
  }
  // A group of root's reaches what root's jobs are kept away from.
  if (account.gid == 0) return Refused(who + ", whose group is root's", "give it another group");
  if (account.uid == kNobody || account.uid == kNoUid || account.gid == kNoUid)
    return Refused(who + ", which stands for nobody", "name another account for them in `users:`");
  if (account.uid < rules.min_uid)
    return Refused(who + " (uid " + std::to_string(account.uid) + "), and those below uid " +
                       std::to_string(rules.min_uid) + " are the system's",
                   "name another account for them in `users:` of agent.yaml, or lower min_uid");
  return {};
}

Result<LocalAccount> AccountOfOwner(const std::string& owner, const AccountRules& rules) {
  const auto mapped = rules.users.find(owner);
  LAUNCH_ASSIGN_OR_RETURN(LocalAccount account,
                          FindAccount(mapped == rules.users.end() ? owner : mapped->second));
  LAUNCH_RETURN_IF_ERROR(CheckAccount(owner, account, rules));
  return account;
}

shim::AccountIds IdsOf(const LocalAccount& account) {
  return {account.uid, account.gid, account.groups.data(), account.groups.size()};
}

}  // namespace launch::agent
