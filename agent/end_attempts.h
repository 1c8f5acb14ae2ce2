// `launch-agent end`: what the attempts of a node left running ends, where no agent runs and no
// controller knows of them.
#pragma once

#include <string>
#include <vector>

#include "common/agent_config.h"
#include "common/error.h"
#include "common/ids.h"

namespace launch::agent {

struct EndedAttempt {
  Key key;
  std::string left;  // why it cannot be proved that nothing is left of it; empty: it is
};

// SIGKILL, for nobody waits for a checkpoint, and the proof. CONFLICT: an agent runs there, or one
// of this node elsewhere, whose groups are the same.
Result<std::vector<EndedAttempt>> EndAttempts(const AgentConfig& config);

}  // namespace launch::agent
