// The controller's key and certificate as gRPC watches them, so that a renewed pair is served
// without a restart.
#pragma once

#include <string>

#include "common/error.h"
#include "common/file_system.h"
#include "controller/enrolment.h"

namespace launch::controller {

struct ServingFiles {
  std::string key;
  std::string certificate;
  std::string authority;
};

// Below the directory DIR/tls: each pair in a directory of its own, and the link `current` to it. A
// watcher that saw a new certificate with an old key would refuse every handshake, so both change
// by one rename of the link. Directories of earlier pairs are removed.
Result<ServingFiles> PublishServing(FileSystem& files, const std::string& state_dir,
                                    const Credentials& credentials);

}  // namespace launch::controller
