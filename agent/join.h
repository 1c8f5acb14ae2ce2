// `launch-agent join`: from the one line of a join token to an identity on disk.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"
#include "common/file_system.h"
#include "common/ids.h"

namespace launch::agent {

struct JoinRequest {
  std::string state_dir;
  std::string token;    // secret; the text of standard input
  NodeId node;          // empty: whatever the token is for; else it must be that
  bool rejoin = false;  // the name is known to the cluster: its old certificate is revoked
};

struct Joined {
  NodeId node;
  std::string cluster;
};

// Makes a key that never leaves this machine, has it signed over mutual TLS with the token's own
// certificate, and writes everything that `run` needs. Tries the token's addresses in turn.
Result<Joined> JoinCluster(FileSystem& files, const JoinRequest& request);

}  // namespace launch::agent
