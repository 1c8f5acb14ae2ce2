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
// How long a silent node is waited for at least, however short the job's requeue_after is: one that
// is silent for a moment is not lost.
inline constexpr Millis kTieWhileSilent{20'000};
// An attempt that ran for less than this ties its job to nothing: it has little to go on from.
inline constexpr Millis kTieFrom{60'000};

struct Tie {
  Attempt attempt;  // that saved there
  std::vector<NodeId> nodes;
};

// The nodes that the job is tied to. Absent: nothing is known to be on disks of the nodes of its
// last run, or one of them is not worth waiting for (fenced, forgotten, broken, silent for longer
// than requeue_after), or the job has waited long enough.
std::optional<Tie> TieOf(const State& state, const JobRecord& job, BootTime now);

// Leaves only the offers of nodes that have these disks: those of the tie, and other agents on the
// same machines.
void KeepToTie(const State& state, const JobRecord& job, const Tie& tie,
               std::vector<PlannerOffer>& offers);

// To call when the nodes of the tie cannot take the job now, for the reason `unplaced`. Returns
// what the job waits for; absent: it waits for them no longer.
std::optional<WaitReason> WaitForTie(Draft& draft, const JobRecord& job, const Tie& tie,
                                     const Unplaced& unplaced);

// Unties the job; records `job.leaves_checkpoint` only if it was waiting for its tie.
void LoseTie(Draft& draft, const JobRecord& job);

// Has the queue look again at waiting jobs whose time with their tie is over.
void EndTies(Draft& draft);
std::optional<BootTime> NextTieEnd(const State& state);

// Whether each node of the attempt has the checkpoint directory on a disk of its own.
bool HaveOwnDisks(const std::vector<NodeId>& nodes, const std::map<NodeId, StagingFacts>& found);
// What `launch status` says once the start is decided; absent: the checkpoints are not of the nodes
// of the attempt alone, or there are no other nodes.
std::optional<Finding> TiesRetries(const State& state, const AttemptRecord& attempt);

}  // namespace launch::controller
