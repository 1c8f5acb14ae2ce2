// A host that is reached through another one: by the ssh program, since libssh has no jumps.
#pragma once

#include <string>
#include <vector>

namespace launch::up {

// What the ssh program of a jump is told besides the hosts: it knows nothing of this one's flags.
struct JumpSsh {
  std::string config;  // an OpenSSH config in place of the user's own; empty = that one
  std::string key;     // private key file; empty = none
  bool accept_new = false;
  std::string errors;  // file that takes what it complains of; empty = none
};

// The command of POSIX shell whose input and output are the connection to "%h:%p", which libssh
// fills in: through `hops`, each "user@host:port", in this order. It never asks at the terminal.
std::string JumpCommand(const std::vector<std::string>& hops, const JumpSsh& ssh);

}  // namespace launch::up
