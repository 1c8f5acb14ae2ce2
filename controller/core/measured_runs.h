// What finished runs and probes teach the planner: no record of their own, read off jobs.
#pragma once

#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/plan.h"
#include "controller/core/record.h"
#include "controller/core/state.h"

namespace launch::controller {

// What a run that succeeded tells of later ones: the time of a step and of the whole, and the peak
// of its fullest GPU (on the CPU of its largest process, which the kernel counted). Of a probe or
// debug run: what its steps took, once its user noted it.
std::optional<MeasuredRun> MeasuredOf(const State& state, const JobRecord& job);

// For a plan made for `owner` now: the newest runs, oldest first. Runs of others come without the
// name of their job: they only correct a formula.
std::vector<MeasuredRun> HistoryFor(const State& state, const UserName& owner);
// For an attempt of `job`: what was known when it was submitted, so that no retry changes its
// strategy, and with it the form of its checkpoints, because something else has finished since.
std::vector<MeasuredRun> HistoryFor(const State& state, const JobRecord& job);

}  // namespace launch::controller
