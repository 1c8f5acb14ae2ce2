#include "proto/renewal_call.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "proto/convert_error.h"
#include "proto/launch.grpc.pb.h"

namespace launch {

Result<CredentialFiles> AskForRenewal(const std::shared_ptr<grpc::Channel>& channel,
                                      const Identity& own, std::chrono::milliseconds within) {
  LAUNCH_ASSIGN_OR_RETURN(const KeyPair key, MakeKey());
  LAUNCH_ASSIGN_OR_RETURN(const std::string csr, MakeCsr(key));
  v1::JoinRequest request;
  request.set_csr_pem(csr);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + within);
  v1::JoinReply reply;
  const auto stub = v1::Identity::NewStub(channel);
  if (const grpc::Status status = stub->Renew(&context, request, &reply); !status.ok()) {
    return Unexpected(FromStatus(status, "the controller"));
  }
  const Certificate fresh{reply.certificate_pem()};
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(fresh.pem));
  if (!(facts.identity == own)) {
    return Fail(ErrorCode::kInternal,
                "the controller signed a certificate for " + ToUri(facts.identity));
  }
  LAUNCH_RETURN_IF_ERROR(CheckPair(key, fresh));
  return CredentialFiles{reply.ca_pem(), fresh.pem, key.private_pem};
}

}  // namespace launch
