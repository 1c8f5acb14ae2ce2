// Calls about copied working directories: to the controller from users, from it to nodes.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "controller/chunk_store.h"
#include "controller/services/executor.h"

namespace launch::v1 {
class FetchChunksReply;
class FetchChunksRequest;
class MissingChunksReply;
class MissingChunksRequest;
class PutChunksRequest;
}  // namespace launch::v1

namespace launch::controller {

// The caller was let in already. The disk is worked on behind the callback.
grpc::ServerUnaryReactor* AnswerMissing(grpc::CallbackServerContext* context, Executor& executor,
                                        ChunkStore& chunks, const v1::MissingChunksRequest& request,
                                        v1::MissingChunksReply* reply);
grpc::ServerUnaryReactor* AnswerPut(grpc::CallbackServerContext* context, Executor& executor,
                                    ChunkStore& chunks, const v1::PutChunksRequest& request);
grpc::ServerWriteReactor<v1::FetchChunksReply>* MakeFetchStream(
    ChunkStore& chunks, const v1::FetchChunksRequest& request);

}  // namespace launch::controller
