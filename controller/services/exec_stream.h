// The two streams of a command beside a rank: the user's and the agent's.
#pragma once

#include <string>

#include "common/exec.h"
#include "controller/services/launch_service.h"
#include "controller/services/node_service.h"

namespace launch::controller {

// What an event says of a command: its program and how many arguments it has. Those may hold what
// nobody can tell from other text, and events live longer than a command.
std::string InAuditTrail(const ExecCommand& command);

// Both delete themselves when the call is over.
ExecUserReactor* MakeExecUserStream(const LaunchServiceParts& parts,
                                    grpc::CallbackServerContext* context);
ExecNodeReactor* MakeExecNodeStream(const NodeServiceParts& parts,
                                    grpc::CallbackServerContext* context);

}  // namespace launch::controller
