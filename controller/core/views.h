// What users see, computed from the state on demand; nothing here is stored or decided.
#pragma once

#include "common/view.h"
#include "controller/core/state.h"

namespace launch::controller {

// `full` adds spec, environment and ranks: for the owner and for operators only.
JobView ViewJob(const State& state, const JobRecord& job, bool full, BootTime now);
NodeView ViewNode(const State& state, const NodeId& node, const Now& now);

// What plans add to a full view: those in memory, and the attempts whose plans are in the store
// only.
void AddPlans(const State& state, JobView& view);
std::vector<effect::ReadPlans::Stored> PlansNotHere(const State& state, JobId job);
void AddPlan(JobView& view, Attempt attempt, const StoredPlan& plan);

// How far an attempt is, or how far it got; empty while its ranks say nothing.
LastProgress ProgressOf(const State& state, const AttemptRecord& attempt);

// The state that users see of a stored job.
JobState ShownState(const State& state, const JobRecord& job);

// Why a queued job waits, always with evidence.
WaitReason WhyWaiting(const State& state, const JobRecord& job);

// What of a job its nodes still hold, one phrase each: "gpu01: 2 GPUs of attempt 1".
std::vector<std::string> StillHeld(const State& state, JobId job, BootTime now);

}  // namespace launch::controller
