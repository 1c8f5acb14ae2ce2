// What is done after an attempt that failed: the one place where a cause becomes an action.
#pragma once

#include <optional>
#include <string>

#include "controller/core/draft.h"

namespace launch::controller {

enum class Action {
  kStop,       // and tell the user
  kSame,       // once more, unchanged
  kElsewhere,  // without the node that failed
  kReplan,     // with a plan of less GPU memory
  kResume,     // it seems to have been ended from outside: goes on from its checkpoint
};

struct Recovery {
  Action action = Action::kStop;
  std::string counted_as;            // key in JobRecord::retries
  bool unproved = false;             // beyond the budget, only to look for a newer checkpoint
  std::string says;                  // what changes, or why it is not tried again; may be empty
  Millis wait{0};                    // before the next attempt
  std::optional<PlanChange> change;  // of kReplan
};

// The verdict, where there is one that names a cause, decides over the mere kind of the end.
Recovery RecoveryAfter(const State& state, const AttemptRecord& attempt, const Ending& ending);

// Whether several nodes may show this verdict for one common cause: anything but a fault of a GPU.
bool MayBeShared(const Verdict& verdict);
// Whether the verdict says that hardware or system of the node is broken, not that others use it.
bool IsFaultOfNode(const Verdict& verdict);
// Whether the verdict leaves it open that the nodes of the job no longer reach each other.
bool DoubtsNetwork(const Verdict& verdict);

// What a retry counts against: `retry.max` holds for each by itself. Changes of the plan have a
// limit of their own.
enum class Budget {
  kInfrastructure,  // filled again by a newer checkpoint; not by one of an end from outside
  kProgram,
};
int RetriesUsed(const JobRecord& job, Budget budget);

void CountRetry(const Recovery& recovery, JobRecord& job);
// To call when the job has a newer checkpoint than at its previous start: failures of the
// infrastructure until then count no more.
void RefillRetries(JobRecord& job);
// Why the job ends: its last retry was one beyond the budget, made only to look for a newer
// checkpoint. Empty where it was not.
std::string WhyOverBudget(const JobRecord& job);

}  // namespace launch::controller
