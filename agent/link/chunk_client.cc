#include "agent/link/chunk_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>

#include "agent/link/channel.h"
#include "agent/link/identity_files.h"
#include "proto/convert_error.h"
#include "proto/node.grpc.pb.h"

namespace launch::agent {
namespace {

// For 1,024 pieces of 256 KiB at 1 MB/s, rounded up.
constexpr std::chrono::minutes kFetchDeadline{5};

}  // namespace

Result<void> FetchFromController(const LinkSettings& settings, FileSystem& files,
                                 const std::vector<std::string>& digests, const TakeChunk& take,
                                 const std::atomic<bool>& cancel) {
  LAUNCH_ASSIGN_OR_RETURN(const IdentityFiles identity, ReadIdentity(files, settings.state_dir));
  v1::FetchChunksRequest request;
  for (const std::string& digest : digests) request.add_digests(digest);
  Error last{ErrorCode::kUnavailable, "no address of a controller is known", {}, {}};
  for (const std::string& address : settings.controllers) {
    const auto stub = v1::Node::NewStub(Dial(address, identity));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kFetchDeadline);
    const auto reader = stub->FetchChunks(&context, request);
    v1::FetchChunksReply reply;
    Result<void> taken;
    while (reader->Read(&reply)) {
      taken = take(reply.digest(), reply.data());
      if (taken && !cancel) continue;
      context.TryCancel();
      while (reader->Read(&reply)) {
      }
    }
    const grpc::Status status = reader->Finish();
    if (!taken) return taken;
    if (cancel) return Fail(ErrorCode::kConflict, "the staging was given up");
    if (status.ok()) return {};
    last = FromStatus(status, "the controller at " + address);
    if (last.code != ErrorCode::kUnavailable) break;
  }
  return Unexpected(std::move(last));
}

}  // namespace launch::agent
