#include "common/account.h"

#include <pwd.h>
#include <unistd.h>

#include <array>

namespace launch {

std::optional<std::string> NameOfUser(unsigned uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> buffer{};
  const bool named =
      ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return named ? std::optional<std::string>(found->pw_name) : std::nullopt;
}

std::string OwnAccount() {
  const uid_t uid = ::geteuid();
  return NameOfUser(uid).value_or("uid" + std::to_string(uid));
}

}  // namespace launch
