// The agent's identity on disk: key, certificate and CA below <state_dir>/identity.
#pragma once

#include <string>
#include <vector>

#include "common/credential_files.h"
#include "common/error.h"
#include "common/file_system.h"
#include "common/ids.h"

namespace launch::agent {

using IdentityFiles = CredentialFiles;

// What `join` learned and `run` needs besides the certificate.
struct JoinedCluster {
  NodeId node;
  std::vector<std::string> controllers;  // "host:port", tried in this order
  // Made at join: who this machine is. Of two agents that claim one node name, those with the same
  // install id are one machine. Its first kInstallDigits digits are those of the node in its
  // cluster, whichever machine it is; the others are random.
  std::string install_id;
};

// Name of the node's control groups ("launch-gpu01-3f2a9c01"), the same in every installation of
// it.
std::string CgroupName(const NodeId& node, const std::string& install_id);

std::string IdentityDir(const std::string& state_dir);

// Errors name the file and say how to join. Checks that key and certificate belong together.
Result<IdentityFiles> ReadIdentity(FileSystem& files, const std::string& state_dir);
// Replaces the files as one: after a crash at any point the old or the new identity is read.
Result<void> WriteIdentity(FileSystem& files, const std::string& state_dir,
                           const IdentityFiles& identity);

Result<JoinedCluster> ReadJoined(FileSystem& files, const std::string& state_dir);
Result<void> WriteJoined(FileSystem& files, const std::string& state_dir,
                         const JoinedCluster& joined);

}  // namespace launch::agent
