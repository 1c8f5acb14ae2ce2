// The node's own certificate, renewed before its end over the connection that it opens.
#pragma once

#include <memory>
#include <string>

#include "agent/link/identity_files.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/pki.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace launch::agent {

// For one connection. Not thread-safe.
class Renewal {
 public:
  Renewal(FileSystem& files, std::string state_dir, const IdentityFiles& identity);

  // Two thirds of the certificate's life are over, and the last try was some time ago.
  bool IsDue(WallTime now) const { return now >= next_; }
  // Makes a new key, has it signed by the controller at the other end of `channel`, and replaces
  // the identity on disk. After a failure it is due again later.
  Result<void> Renew(const std::shared_ptr<grpc::Channel>& channel, WallTime now);

 private:
  FileSystem& files_;
  const std::string state_dir_;
  Identity own_;       // whom the certificate names
  Millis patience_{};  // between two tries
  WallTime next_{};
};

}  // namespace launch::agent
