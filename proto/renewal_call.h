// The holder of a certificate asks the controller for the next one.
#pragma once

#include <chrono>
#include <memory>

#include "common/credential_files.h"
#include "common/error.h"
#include "common/pki.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace launch {

// Makes a new key and has it signed over `channel`, on which the caller proved to be `own`. What
// comes back is of that key and names `own`, or the call fails.
Result<CredentialFiles> AskForRenewal(const std::shared_ptr<grpc::Channel>& channel,
                                      const Identity& own, std::chrono::milliseconds within);

}  // namespace launch
