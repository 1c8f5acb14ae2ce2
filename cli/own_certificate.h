// The certificate by which a cluster knows whoever types a command: read, judged, renewed.
#pragma once

#include <memory>
#include <string>

#include "common/clock.h"
#include "common/credential_files.h"
#include "common/error.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace launch {

// The three files of a credentials directory. kUnavailable when they cannot be used;
// kPermissionDenied with the way out when the certificate is over.
Result<CredentialFiles> OpenCredentials(const std::string& dir, WallTime now);

// Has a new key signed over `channel` and replaces the files of `dir`, when two thirds of the
// certificate's life are over. Says nothing: what cannot be renewed now is good for a while yet.
void RenewWhenDue(const std::string& dir, const CredentialFiles& own,
                  const std::shared_ptr<grpc::Channel>& channel, WallTime now);

}  // namespace launch
