// One agent's bulk stream: log bytes on their way to the relay.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "controller/services/node_service.h"
#include "proto/node.pb.h"

namespace launch::controller {

// Deletes itself when the call is over.
grpc::ServerBidiReactor<launch::v1::BulkUp, launch::v1::BulkDown>* MakeBulkStream(
    const NodeServiceParts& parts, grpc::CallbackServerContext* context);

}  // namespace launch::controller
