// Key, certificate and authority of one member of a cluster, as three files of a directory.
#pragma once

#include <string>

#include "common/error.h"
#include "common/file_system.h"

namespace launch {

struct CredentialFiles {
  std::string ca_pem;
  std::string certificate_pem;
  std::string key_pem;  // secret
};

// Checks that key and certificate belong together (kFailedPrecondition); a file that is not there
// is kNotFound. Safe beside WriteCredentials of another process.
Result<CredentialFiles> ReadCredentials(FileSystem& files, const std::string& dir);

// Replaces the three files as one: whoever reads meanwhile, or after a crash at any point, gets the
// old three or the new. The directory must exist.
Result<void> WriteCredentials(FileSystem& files, const std::string& dir,
                              const CredentialFiles& credentials);

}  // namespace launch
