// One call of Watch: stored events from a sequence number on, then new ones as they are committed.
#pragma once

#include "controller/services/launch_service.h"
#include "controller/services/pull_stream.h"
#include "proto/launch.pb.h"

namespace launch::controller {

// Users see the events of their own jobs and of nodes, operators all. Deletes itself.
grpc::ServerWriteReactor<launch::v1::WatchReply>* MakeWatchStream(const LaunchServiceParts& parts,
                                                                  Caller caller, WatchCall call);

// The job an event is about: of "job/12" and "attempt/12.1".
std::optional<JobId> JobOfSubject(std::string_view subject);

}  // namespace launch::controller
