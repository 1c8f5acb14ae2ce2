#include "agent/link/chunk_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <set>
#include <thread>

#include "agent/link/channel.h"
#include "agent/link/identity_files.h"
#include "proto/convert_error.h"
#include "proto/node.grpc.pb.h"

namespace launch::agent {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr std::chrono::seconds kConnect{1};
constexpr std::chrono::milliseconds kBetweenTries{300};
// Without a piece for this long nothing more is expected.
constexpr std::chrono::minutes kSilence{2};
constexpr std::chrono::minutes kOneCall{10};

Unexpected GivenUp() { return Fail(ErrorCode::kConflict, "the staging was given up"); }

// What one stream brings; `wanted` loses what arrived, also when the stream breaks.
Result<void> FetchOnce(v1::Node::Stub& stub, JobId job, std::set<std::string>& wanted,
                       const TakeChunk& take, const std::atomic<bool>& cancel,
                       const std::string& address) {
  v1::FetchChunksRequest request;
  request.set_job(job.value);
  for (const std::string& digest : wanted) request.add_digests(digest);
  grpc::ClientContext context;
  context.set_deadline(system_clock::now() + kOneCall);
  const auto reader = stub.FetchChunks(&context, request);
  v1::FetchChunksReply reply;
  Result<void> taken;
  while (reader->Read(&reply)) {
    taken = take(reply.digest(), reply.data());
    if (taken) wanted.erase(reply.digest());
    if (taken && !cancel) continue;
    context.TryCancel();
    while (reader->Read(&reply)) {
    }
  }
  const grpc::Status status = reader->Finish();
  if (!taken) return taken;
  if (cancel) return GivenUp();
  if (status.ok() && wanted.empty()) return {};
  if (status.ok()) return Fail(ErrorCode::kDataLoss, address + " sent less than was asked for");
  return Unexpected(FromStatus(status, "the controller at " + address));
}

}  // namespace

Result<void> FetchFromController(const LinkSettings& settings, FileSystem& files, JobId job,
                                 const std::vector<std::string>& digests, const TakeChunk& take,
                                 const std::atomic<bool>& cancel) {
  LAUNCH_ASSIGN_OR_RETURN(const IdentityFiles identity, ReadIdentity(files, settings.state_dir));
  std::set<std::string> wanted(digests.begin(), digests.end());
  Error last{ErrorCode::kUnavailable, "no address of a controller is known", {}, {}};
  auto end = steady_clock::now() + kSilence;
  while (!settings.controllers.empty()) {
    for (const std::string& address : settings.controllers) {
      if (cancel) return GivenUp();
      const auto channel = Dial(address, identity);
      if (!channel->WaitForConnected(system_clock::now() + kConnect)) {
        last = {ErrorCode::kUnavailable, "no controller answers at " + address, {}, {}};
        continue;
      }
      const std::size_t before = wanted.size();
      auto fetched = FetchOnce(*v1::Node::NewStub(channel), job, wanted, take, cancel, address);
      if (fetched) return {};
      const bool late = fetched.error().code == ErrorCode::kDeadlineExceeded;  // a slow line
      if (fetched.error().code != ErrorCode::kUnavailable && !late) return fetched;
      last = std::move(fetched).error();
      if (wanted.size() < before) end = steady_clock::now() + kSilence;
    }
    if (steady_clock::now() > end) break;
    std::this_thread::sleep_for(kBetweenTries);
  }
  return Unexpected(std::move(last));
}

}  // namespace launch::agent
