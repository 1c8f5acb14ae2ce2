#include "controller/services/chunk_calls.h"

#include <string>
#include <utility>
#include <vector>

#include "controller/services/pull_stream.h"
#include "controller/services/unary.h"
#include "proto/convert_error.h"
#include "proto/launch.pb.h"
#include "proto/node.pb.h"

namespace launch::controller {
namespace {

constexpr int kMostFetched = 4'096;

class FetchStream final : public PullStream<v1::FetchChunksReply> {
 public:
  FetchStream(ChunkStore& chunks, UserName owner, const v1::FetchChunksRequest& request)
      : chunks_(chunks),
        owner_(std::move(owner)),
        digests_(request.digests().begin(), request.digests().end()) {}

 private:
  Next Pull() override {
    if (next_ == digests_.size()) return grpc::Status::OK;
    const std::string& digest = digests_[next_++];
    auto bytes = chunks_.Get(owner_, digest);
    if (!bytes) return ToStatus(bytes.error());
    v1::FetchChunksReply reply;
    reply.set_digest(digest);
    reply.set_data(std::move(*bytes));
    return reply;
  }
  void Ended() override {}

  ChunkStore& chunks_;
  const UserName owner_;
  const std::vector<std::string> digests_;
  std::size_t next_ = 0;
};

}  // namespace

grpc::ServerUnaryReactor* AnswerMissing(grpc::CallbackServerContext* context, Executor& executor,
                                        ChunkStore& chunks, const UserName& user,
                                        const v1::MissingChunksRequest& request,
                                        v1::MissingChunksReply* reply) {
  if (auto small = CheckSize(request); !small) return Refuse(context, small.error());
  if (request.digests_size() != request.sizes_size()) {
    return Refuse(
        context,
        Error{ErrorCode::kInvalidArgument, "sizes has another length than digests", {}, {}});
  }
  std::vector<std::pair<std::string, std::uint32_t>> wanted;
  wanted.reserve(static_cast<std::size_t>(request.digests_size()));
  for (int i = 0; i < request.digests_size(); ++i) {
    wanted.emplace_back(request.digests(i), request.sizes(i));
  }
  auto* reactor = context->DefaultReactor();
  executor.Post([&chunks, user, reactor, reply, wanted = std::move(wanted)] {
    auto missing = chunks.Missing(user, wanted);
    if (!missing) return reactor->Finish(ToStatus(missing.error()));
    for (std::string& digest : *missing) reply->add_digests(std::move(digest));
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AnswerPut(grpc::CallbackServerContext* context, Executor& executor,
                                    ChunkStore& chunks, CallsOfUsers& waiting, const UserName& user,
                                    const v1::PutChunksRequest& request) {
  if (auto small = CheckSize(request); !small) return Refuse(context, small.error());
  CallsOfUsers::Place place = waiting.Take(user);
  if (!place) {
    return Refuse(context, Error{ErrorCode::kResourceExhausted,
                                 "too many pieces of copies of " + user.value +
                                     " wait to be written to the controller's disk",
                                 "submit again in a moment, fewer jobs at once",
                                 {}});
  }
  auto* reactor = context->DefaultReactor();
  // The request lives until the reactor is finished.
  executor.Post([&chunks, user, reactor, &request, place = std::move(place)]() mutable {
    Result<void> put;
    for (int i = 0; put && i < request.chunks_size(); ++i)
      put = chunks.Put(user, request.chunks(i));
    place.reset();  // before the answer, behind which the next call may come at once
    reactor->Finish(put ? grpc::Status::OK : ToStatus(put.error()));
  });
  return reactor;
}

grpc::ServerWriteReactor<v1::FetchChunksReply>* MakeFetchStream(
    ChunkStore& chunks, const std::optional<UserName>& owner,
    const v1::FetchChunksRequest& request) {
  if (!owner) {
    return new RefusedStream<v1::FetchChunksReply>(
        ToStatus(Error{ErrorCode::kNotFound,
                       "pieces of a copied directory are given out to nodes that have an attempt "
                       "of the job, until it ends; this node has none of job " +
                           std::to_string(request.job()),
                       {},
                       {}}));
  }
  if (request.digests_size() > kMostFetched) {
    return new RefusedStream<v1::FetchChunksReply>(ToStatus(Error{
        ErrorCode::kInvalidArgument, "at most 4096 pieces may be asked for at once", {}, {}}));
  }
  auto* stream = new FetchStream(chunks, *owner, request);
  const auto handle = stream->handle();
  handle->Start();
  return stream;
}

}  // namespace launch::controller
