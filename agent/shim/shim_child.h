// Between fork and execve: turns the forked child into the rank.
#pragma once

#include "agent/shim/shim_record.h"
#include "agent/shim/shim_spec.h"

namespace launch::shim {

struct ChildFailure {
  Stage stage = Stage::kNone;
  std::int32_t error_number = 0;
};

// Returns only when a step failed; the caller reports it and exits. Async-signal-safe. `born` says
// that the child is in the first of the rank's cgroups already.
ChildFailure BecomeRank(const SpecView& spec, bool born);

}  // namespace launch::shim
