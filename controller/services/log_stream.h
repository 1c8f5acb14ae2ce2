// One call of Logs.
#pragma once

#include "controller/log_relay.h"
#include "controller/services/pull_stream.h"
#include "proto/launch.pb.h"

namespace launch::controller {

// Deletes itself when the call is over.
grpc::ServerWriteReactor<launch::v1::LogsReply>* MakeLogStream(LogRelay& relay, LogQuery query);

}  // namespace launch::controller
