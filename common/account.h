// The names of accounts: of the one this process runs as, that certificates and placement use.
#pragma once

#include <optional>
#include <string>

namespace launch {

// The user's name in the account database; absent: it has none, as in containers.
std::optional<std::string> NameOfUser(unsigned uid);

// The effective user's name in the account database; "uid1000" where it has none, as in containers.
// Never read from USER: the environment is the caller's to write.
std::string OwnAccount();

}  // namespace launch
