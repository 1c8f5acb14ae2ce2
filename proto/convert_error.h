// Errors over gRPC: the one map between our codes and gRPC's, with message, hint and place kept.
#pragma once

#include <grpcpp/support/status.h>

#include "common/error.h"

namespace launch {

// The status' message is the error's; code, hint and place travel in the status details.
grpc::Status ToStatus(const Error& error);

// The error in a status that is not OK. Without our details (the transport's own errors) the code
// is mapped and `peer` ("the controller at host:port") is named; a status that is OK is kInternal.
Error FromStatus(const grpc::Status& status, std::string_view peer);

}  // namespace launch
