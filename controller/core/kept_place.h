// The place of a job between two attempts: when one ends by itself and its nodes are well, they,
// the GPUs and the cores stay the job's, so that the next attempt begins there at once.
//
// The place is the attempt's own allocations (JobRecord::keeps names it), so it survives a restart
// of the controller; what was found while staging is live, and is looked for again after one. It is
// kept from the first sign that the attempt ends, because its nodes are done at different times.
#pragma once

#include <optional>
#include <string>

#include "controller/core/attempt_facts.h"
#include "planner/planner.h"

namespace launch::controller {

// How long a place is kept for a silent node: agents are back within 15 s of a restart of theirs or
// of the controller.
inline constexpr Millis kKeptWhileSilent{20'000};
// GPUs do not idle for longer than this because of a backoff.
inline constexpr Millis kLongestKept{300'000};
// Beyond the job's own time to stop: a node that has not ended its part by then is stuck, and the
// others do not wait for it. A Stop that got lost was sent again (kAskAgain) by then.
inline constexpr Millis kKeptInStop{60'000};

struct PlaceLook {
  std::string lost;   // why no attempt can begin there any more; empty: one can
  std::string waits;  // what it waits for before that
};
PlaceLook LookAtPlace(const State& state, const JobRecord& job, BootTime now);

// Called when an attempt begins to stop: keeps its place for the next one, as far as can be known
// now.
void KeepPlace(Draft& draft, const Facts& facts, StopCause cause);
// Called when the attempt has ended: whether the next one begins in its place.
bool StaysInPlace(const Draft& draft, const JobRecord& job, const Key& ended, Millis backoff);
// Gives up the job's place. The caller still has to Put `job`.
void LeavePlace(Draft& draft, JobRecord& job, const std::string& why);
// Gives up the places that are lost, or that nobody needs any more.
void ReviewPlaces(Draft& draft);
bool HasLostPlace(const State& state, BootTime now);
std::optional<BootTime> NextPlaceLost(const State& state);

// The kept place, as positions in the offers.
Placement PlacementInPlace(const State& state, const JobRecord& job,
                           const std::vector<effect::NodeOffer>& offers);

// What the attempt found while staging is kept for the next one, and taken over by it: whatever
// cannot have changed meanwhile is not looked at again.
void KeepStaging(Draft& draft, const Key& ended);
void TakeOverStaging(Draft& draft, const Key& next, Attempt before);
// What a node found, with what was not looked at again.
StagingFacts WithKnown(const LiveAttempt& live, const NodeId& node, StagingFacts found);

}  // namespace launch::controller
