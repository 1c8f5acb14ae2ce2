#include "common/account.h"

#include <pwd.h>
#include <unistd.h>

#include <array>

namespace launch {

std::string OwnAccount() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> buffer{};
  const uid_t uid = ::geteuid();
  const bool named =
      ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return named ? found->pw_name : "uid" + std::to_string(uid);
}

}  // namespace launch
