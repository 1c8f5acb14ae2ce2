// The two streams of a command beside a rank: the user's and the agent's.
#pragma once

#include "controller/services/launch_service.h"
#include "controller/services/node_service.h"

namespace launch::controller {

// Both delete themselves when the call is over.
ExecUserReactor* MakeExecUserStream(const LaunchServiceParts& parts,
                                    grpc::CallbackServerContext* context);
ExecNodeReactor* MakeExecNodeStream(const NodeServiceParts& parts,
                                    grpc::CallbackServerContext* context);

}  // namespace launch::controller
