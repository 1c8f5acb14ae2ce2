// The queue in the order of submission with head-of-line blocking: who may be tried, who must wait.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/view.h"

namespace launch {

// One waiting job. `passed_over` = it may not start now and blocks nobody (held, backoff,
// planning).
struct QueueEntry {
  JobId job;
  std::optional<WaitReason> passed_over;
};

struct QueueVerdict {
  JobId job;
  std::optional<WaitReason> waits;  // absent = it was started
};

struct QueueOutcome {
  // Verdicts in order: on every entry up to the first that blocks, and on those after it that were
  // passed over.
  std::vector<QueueVerdict> verdicts;
  std::optional<JobId> blocked_by;  // those behind it were not tried
};

// Why `start` could not start a job. A job that waits for nodes that are away (drained, silent) or
// for a repair (a bad or quarantined GPU) blocks nobody: what is free now could not serve it
// anyway.
struct Waits {
  WaitReason reason;
  bool blocks = true;
};

// Tries `entries` in order; `start` places a job and returns nothing, or says why it must wait.
QueueOutcome RunFifo(const std::vector<QueueEntry>& entries,
                     const std::function<std::optional<Waits>(JobId)>& start);

}  // namespace launch
