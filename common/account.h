// The account this process runs as, by the name that certificates and placement use.
#pragma once

#include <string>

namespace launch {

// Of the effective user, as the account database names it; "uid1000" where it has no name, as in
// containers. Never from USER: the environment is the caller's to write.
std::string OwnAccount();

}  // namespace launch
