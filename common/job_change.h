// What a user may change of a job after it was submitted.
#pragma once

#include <optional>

#include "common/clock.h"
#include "common/job.h"

namespace launch {

enum class JobAction {
  kHold,     // it does not start until released
  kRelease,  // of a hold
  kRequeue,  // stop what runs and start again as a new attempt
  kUpdate,   // the fields below
};

struct JobChange {
  JobAction action = JobAction::kHold;
  bool hold = false;  // kRequeue: and do not start before a release
  // kUpdate: absent = as it is.
  std::optional<int> priority;
  std::optional<Millis> time_limit;
  std::optional<WallTime> begin;
  std::optional<NodeCount> nodes;
  friend bool operator==(const JobChange&, const JobChange&) = default;
};

}  // namespace launch
