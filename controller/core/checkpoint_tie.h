// A job whose checkpoints are on disks of the nodes where it ran is tied to them: elsewhere it
// would begin from the first step, without a word. It waits for these nodes before it goes
// elsewhere, but not for ever, and what they have free is not given to the jobs behind it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/core/draft.h"
#include "controller/core/effect.h"
#include "planner/planner.h"

namespace launch::controller {

inline constexpr Millis kTieKept{20 * 60'000};
// Of a job with requeue_after: a node that is silent for a moment is not lost.
inline constexpr Millis kTieWhileSilent{20'000};
// An attempt that ran for less has little to go on from.
inline constexpr Millis kTieFrom{60'000};

struct Tie {
  Attempt attempt;  // that saved there
  std::vector<NodeId> nodes;
};

// Absent: nothing is known to be on disks of the nodes of its last run, or one of them is not to be
// waited for (fenced, forgotten, broken; silent for longer than requeue_after), or it waited.
std::optional<Tie> TieOf(const State& state, const JobRecord& job, BootTime now);

// The nodes that have these disks: those of the tie, and other agents on the same machines.
void KeepToTie(const State& state, const JobRecord& job, const Tie& tie,
               std::vector<PlannerOffer>& offers);

// They cannot take it now, and this is why. Says what the job waits for; absent: it does not wait.
std::optional<WaitReason> WaitForTie(Draft& draft, const JobRecord& job, const Tie& tie,
                                     const Unplaced& unplaced);

// It is not tied any more, if it was: said once.
void LoseTie(Draft& draft, const JobRecord& job);

// Waiting jobs whose time is over are looked at again.
void EndTies(Draft& draft);
std::optional<BootTime> NextTieEnd(const State& state);

// The nodes of the attempt, each for itself, have the checkpoint directory on a disk of their own.
bool HaveOwnDisks(const std::vector<NodeId>& nodes, const std::map<NodeId, StagingFacts>& found);
// What `launch status` says once the start is decided; absent: the checkpoints are not of the nodes
// of the attempt alone, or there are no other nodes.
std::optional<Finding> TiesRetries(const State& state, const AttemptRecord& attempt);

}  // namespace launch::controller
