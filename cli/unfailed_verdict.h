// What `launch why` says of a job that has not failed, or no longer.
#pragma once

#include <optional>
#include <string>

#include "common/view.h"

namespace launch {

struct UnfailedVerdict {
  std::string says;  // one sentence, with the state of the job
  // Of the newest attempt that failed, where one did; else of label "none".
  Verdict verdict;
};

// Absent: the job failed, or waits, so that another answer fits. An attempt that runs counts as one
// that has not failed while no verdict on it is recorded.
std::optional<UnfailedVerdict> VerdictOfUnfailed(const JobView& job);

}  // namespace launch
