// Calls about copied working directories: to the controller from users, from it to nodes.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <optional>

#include "controller/chunk_store.h"
#include "controller/services/calls_of_users.h"
#include "controller/services/executor.h"

namespace launch::v1 {
class FetchChunksReply;
class FetchChunksRequest;
class MissingChunksReply;
class MissingChunksRequest;
class PutChunksRequest;
}  // namespace launch::v1

namespace launch::controller {

// Answers a caller who was let in already. The disk is read on another thread than the callback's.
grpc::ServerUnaryReactor* AnswerMissing(grpc::CallbackServerContext* context, Executor& executor,
                                        ChunkStore& chunks, const UserName& user,
                                        const v1::MissingChunksRequest& request,
                                        v1::MissingChunksReply* reply);
// The pieces of a call are in memory until they are on the disk: `waiting` bounds those of a user.
grpc::ServerUnaryReactor* AnswerPut(grpc::CallbackServerContext* context, Executor& executor,
                                    ChunkStore& chunks, CallsOfUsers& waiting, const UserName& user,
                                    const v1::PutChunksRequest& request);
// Sends chunks for a job of `owner`, and only what that user sent; absent: the node has no part of
// the job.
grpc::ServerWriteReactor<v1::FetchChunksReply>* MakeFetchStream(
    ChunkStore& chunks, const std::optional<UserName>& owner,
    const v1::FetchChunksRequest& request);

}  // namespace launch::controller
