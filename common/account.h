// The names of accounts: of the one this process runs as, that certificates and placement use.
#pragma once

#include <optional>
#include <string>

namespace launch {

// As the account database names the user; absent: it has no name, as in containers.
std::optional<std::string> NameOfUser(unsigned uid);

// Of the effective user, as the account database names it; "uid1000" where it has no name, as in
// containers. Never from USER: the environment is the caller's to write.
std::string OwnAccount();

}  // namespace launch
