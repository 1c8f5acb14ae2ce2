// Accounts of this machine that ranks run as, where an agent runs the jobs of many owners.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/shim/become_account.h"
#include "common/error.h"

namespace launch::agent {

struct LocalAccount {
  std::string name;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // all of them, as initgroups(3) would set them
  std::string home;
  std::string shell;
  friend bool operator==(const LocalAccount&, const LocalAccount&) = default;
};

struct AccountRules {
  std::map<std::string, std::string> users;  // owner of a job -> account; others: the same name
  std::uint32_t min_uid = 1000;              // below are the system's own accounts
  bool root_jobs = false;                    // jobs of the owner "root" run as root
};

// The account in this machine's database, which may ask the network. kPermissionDenied: unknown.
Result<LocalAccount> FindAccount(const std::string& name);

// Whether jobs of `owner` may run as this account. Pure.
Result<void> CheckAccount(const std::string& owner, const LocalAccount& account,
                          const AccountRules& rules);

// Both. kPermissionDenied with what whoever keeps the machine can do about it.
Result<LocalAccount> AccountOfOwner(const std::string& owner, const AccountRules& rules);

inline constexpr std::uint32_t kAccountUmask = 077;  // on a machine that others use too

// For a child that becomes the account. Points into it.
shim::AccountIds IdsOf(const LocalAccount& account);

}  // namespace launch::agent
