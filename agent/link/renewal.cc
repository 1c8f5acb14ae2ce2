#include "agent/link/renewal.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/pki.h"
#include "proto/convert_error.h"
#include "proto/launch.grpc.pb.h"

namespace launch::agent {
namespace {

constexpr std::chrono::seconds kCallDeadline{10};
constexpr Millis kShortestPause{1'000};
constexpr Millis kLongestPause{3'600'000};

}  // namespace

Renewal::Renewal(FileSystem& files, std::string state_dir, const IdentityFiles& identity)
    : files_(files), state_dir_(std::move(state_dir)), next_(WallTime::max()) {
  const auto facts = ReadCertificate(identity.certificate_pem);
  if (!facts) return;  // what cannot be read is never due: the handshake tells
  uri_ = ToUri(facts->identity);
  next_ = RenewalOf(*facts);
  const auto left = std::chrono::duration_cast<Millis>(facts->not_after - next_);
  patience_ = std::clamp(left / 20, kShortestPause, kLongestPause);
}

Result<void> Renewal::Renew(const std::shared_ptr<grpc::Channel>& channel, WallTime now) {
  auto done = Exchange(channel);
  next_ = done ? WallTime::max() : now + patience_;
  return done;
}

Result<void> Renewal::Exchange(const std::shared_ptr<grpc::Channel>& channel) {
  LAUNCH_ASSIGN_OR_RETURN(const KeyPair key, MakeKey());
  LAUNCH_ASSIGN_OR_RETURN(const std::string csr, MakeCsr(key));
  v1::JoinRequest request;
  request.set_csr_pem(csr);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallDeadline);
  v1::JoinReply reply;
  const auto stub = v1::Identity::NewStub(channel);
  if (const grpc::Status status = stub->Renew(&context, request, &reply); !status.ok())
    return Unexpected(FromStatus(status, "the controller"));
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(reply.certificate_pem()));
  if (ToUri(facts.identity) != uri_)
    return Fail(ErrorCode::kInternal,
                "the controller signed a certificate for " + ToUri(facts.identity));
  return WriteIdentity(files_, state_dir_,
                       {.ca_pem = reply.ca_pem(),
                        .certificate_pem = reply.certificate_pem(),
                        .key_pem = key.private_pem});
}

}  // namespace launch::agent
