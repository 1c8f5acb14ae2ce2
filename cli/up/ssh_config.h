// What OpenSSH's own configuration says of a host, asked of OpenSSH itself: libssh reads less of it
// (no relative Include, and no block for an alias once a HostName was read).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/up/hosts.h"
#include "common/error.h"

namespace launch::up {

// Settings of one host. Empty or 0: the configuration leaves that to the program.
struct SshSettings {
  std::string host_name;  // HostName, or the name that was asked for
  std::string user;
  int port = 0;
  std::vector<std::string> identities;  // files, also those that are not there
  std::string agent;                    // socket; "none"
  std::string known_hosts;
  std::string system_known_hosts;
  std::string proxy_command;      // with %h and %p
  std::vector<std::string> hops;  // of ProxyJump, each "user@host:port", in this order
  friend bool operator==(const SshSettings&, const SshSettings&) = default;
};

// Reads the output of `ssh -G`.
SshSettings ReadSshSettings(std::string_view output);

// Asks `ssh -G` for the settings of the host. `config`: the file that is read in place of the
// user's and the system's; empty: those. Absent: there is no ssh program here. kInvalidArgument, in
// ssh's words: it does not understand the file.
Result<std::optional<SshSettings>> AskSsh(const Host& host, const std::string& config);

}  // namespace launch::up
