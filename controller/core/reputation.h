// Nodes that make jobs fail: remembered over jobs, and drained when it is no coincidence.
#pragma once

#include "controller/core/draft.h"

namespace launch::controller {

// To call once the attempt has its verdict. A node whose own fault two different jobs named within
// a week is drained, with the reason and how to test it; what runs there goes on. A log is the
// user's word, so without other evidence (the kernel, the driver) the jobs must be of two users,
// unless the node runs one user's jobs only.
void NoteNodeFault(Draft& draft, const AttemptRecord& attempt, const Ending& ending);

}  // namespace launch::controller
