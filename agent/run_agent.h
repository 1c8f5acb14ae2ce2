// `launch-agent run`: the loop that feeds the core and carries out its orders.
#pragma once

#include "common/agent_config.h"
#include "common/error.h"

namespace launch::agent {

// Runs until SIGTERM or SIGINT and ends the process; ranks are not touched. Returns only what
// forbids the start: no identity, state directory in use, state that cannot be read.
Error RunAgent(AgentConfig config);

}  // namespace launch::agent
