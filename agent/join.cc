#include "agent/join.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include "agent/link/channel.h"
#include "agent/link/identity_files.h"
#include "agent/runner/fence_file.h"
#include "common/clock.h"
#include "common/install_id.h"
#include "common/pki.h"
#include "common/text.h"
#include "proto/convert_error.h"
#include "proto/launch.grpc.pb.h"

namespace launch::agent {
namespace {

constexpr std::chrono::seconds kDeadline{15};

// "node:gpu01" -> gpu01
Result<NodeId> NodeOf(const JoinToken& token) {
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(token.certificate_pem));
  constexpr std::string_view kPrefix = "node:";
  const std::string& name = facts.identity.name;
  if (facts.identity.role != "join" || !name.starts_with(kPrefix))
    return Fail(ErrorCode::kInvalidArgument, "this token is not for a node but for " + name,
                "a node's token: launch token create --node NAME");
  return NodeId{name.substr(kPrefix.size())};
}

Result<v1::JoinReply> Ask(const std::string& address, const JoinToken& token,
                          const v1::JoinRequest& request) {
  const auto channel = Dial(address, IdentityFiles{.ca_pem = token.ca_pem,
                                                   .certificate_pem = token.certificate_pem,
                                                   .key_pem = token.key_pem});
  const auto stub = v1::Identity::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  v1::JoinReply reply;
  const grpc::Status status = stub->Join(&context, request, &reply);
  if (!status.ok()) return Unexpected(FromStatus(status, "the controller at " + address));
  return reply;
}

// Begins alike in every installation of one node of one cluster (of which only the CA is unlike any
// other's): the node's control groups are called so, and what an earlier one started is found.
std::string MakeInstallId(const std::string& ca_pem, const NodeId& node) {
  return Sha256Hex(ca_pem + node.value).substr(0, kInstallDigits) +
         RandomHex(16 - kInstallDigits / 2);
}

// What cannot be written must be known before the token is used up, and what a node that works has
// must stay whole when it is refused.
Result<void> TryToWrite(FileSystem& files, const std::string& dir) {
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(dir));
  const std::string scratch = dir + "/.try-to-write";
  LAUNCH_RETURN_IF_ERROR(files.WriteDurable(scratch, std::string(4096, '\n')));
  return files.RemoveTree(scratch);
}

}  // namespace

Result<Joined> JoinCluster(FileSystem& files, const JoinRequest& request) {
  LAUNCH_ASSIGN_OR_RETURN(const JoinToken token, ParseJoinToken(Trim(request.token)));
  LAUNCH_ASSIGN_OR_RETURN(const NodeId node, NodeOf(token));
  if (!request.node.value.empty() && request.node != node)
    return Fail(
        ErrorCode::kInvalidArgument,
        "the token is for node " + node.value + ", the configuration says " + request.node.value,
        "make a token with: launch token create --node " + request.node.value);
  LAUNCH_RETURN_IF_ERROR(TryToWrite(files, IdentityDir(request.state_dir)));
  JoinedCluster joined{.node = node,
                       .controllers = token.addresses,
                       .install_id = MakeInstallId(token.ca_pem, node)};
  const auto before = ReadJoined(files, request.state_dir);
  if (before) joined.install_id = before->install_id;

  LAUNCH_ASSIGN_OR_RETURN(const KeyPair key, MakeKey());
  v1::JoinRequest wire;
  LAUNCH_ASSIGN_OR_RETURN(const std::string csr, MakeCsr(key));
  wire.set_csr_pem(csr);
  wire.set_rejoin(request.rejoin);
  Result<v1::JoinReply> reply =
      Fail(ErrorCode::kInvalidArgument, "the token names no address of the controller");
  for (const std::string& address : token.addresses) {
    reply = Ask(address, token, wire);
    if (reply || reply.error().code != ErrorCode::kUnavailable) break;
  }
  if (!reply) {
    SystemClock clock;
    return Unexpected(ExplainFailedJoin(std::move(reply).error(), token, clock.WallNow()));
  }
  const IdentityFiles identity{.ca_pem = reply->ca_pem(),
                               .certificate_pem = reply->certificate_pem(),
                               .key_pem = key.private_pem};
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(identity.certificate_pem));
  if (facts.identity.role != "node" || facts.identity.name != node.value)
    return Fail(ErrorCode::kInternal, "the controller signed a certificate for " +
                                          ToUri(facts.identity) + " instead of this node");
  // What was obeyed of another cluster says nothing of this one's store.
  const auto known = ReadIdentity(files, request.state_dir);
  if (!known || known->ca_pem != identity.ca_pem)
    LAUNCH_RETURN_IF_ERROR(files.RemoveTree(FencePath(request.state_dir)));
  LAUNCH_RETURN_IF_ERROR(WriteJoined(files, request.state_dir, joined));
  if (auto written = WriteIdentity(files, request.state_dir, identity); !written) {
    if (before) (void)WriteJoined(files, request.state_dir, *before);
    return Unexpected(std::move(written).error());
  }
  return Joined{.node = node, .cluster = facts.identity.cluster};
}

}  // namespace launch::agent
