// The door of every RPC: who is it, by certificate; is it revoked or over; does the table allow the
// method.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/error.h"
#include "common/mailbox.h"
#include "common/pki.h"
#include "controller/access.h"
#include "controller/core/event.h"
#include "controller/core/ownership.h"
#include "controller/services/directory.h"
#include "controller/services/doorkeeper.h"

namespace grpc {
class AuthContext;
class ServerContextBase;
}  // namespace grpc

namespace launch::controller {

// A caller that was let in.
struct Admitted {
  Identity identity;
  std::string serial;  // of the certificate
  Role role = Role::kUser;
  Caller caller;  // of users and operators
};

// Thread-safe.
class Gate {
 public:
  Gate(std::string cluster, const Directory& directory, Doorkeeper& door, Mailbox<Event>& mailbox,
       Clock& clock)
      : cluster_(std::move(cluster)),
        directory_(directory),
        door_(door),
        mailbox_(mailbox),
        clock_(clock) {}

  // `method` as gRPC names it. Errors are kPermissionDenied; kResourceExhausted: the caller has too
  // many connections.
  Result<Admitted> Admit(const grpc::ServerContextBase& context, std::string_view method) const;

  // Whether the caller may do it with that job; a user learns the same of another's job as of one
  // that does not exist. What is denied becomes an event.
  Result<void> MayWith(const Caller& caller, JobAct act, JobId job) const;

  const std::string& cluster() const { return cluster_; }

 private:
  Result<void> CheckCertificate(const CertificateFacts& facts) const;

  const std::string cluster_;
  const Directory& directory_;
  Doorkeeper& door_;
  Mailbox<Event>& mailbox_;
  Clock& clock_;
};

}  // namespace launch::controller
