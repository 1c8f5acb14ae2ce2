// What happens to a run from outside: jobs and faults, drawn from the seed, then a plain list that
// can be cut down to what matters.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/job.h"

namespace launch::sim {

// Faults stop here; the rest of a run heals.
inline constexpr std::int64_t kFaultsEnd = 150'000;

enum class FaultKind {
  kKillController,   // SIGKILL; what it wrote stays
  kPowerController,  // power loss: what was not synced is gone
  kPauseController,  // SIGSTOP
  kControllerClock,  // the wall clock jumps by `amount` ms
  kStoreFull,        // no commit succeeds while it lasts
  kKillAgent,        // SIGKILL
  kPauseAgent,       // SIGSTOP
  kPowerNode,        // the node loses power and boots
  kNodeDiskFull,     // the agent's disk takes nothing new while it lasts
  kCut,              // no byte either way
  kCutUp,            // none towards the controller
  kCutDown,          // none towards the node
  kSlow,             // every message takes up to `amount` ms
  kReset,            // both ends see the stream close at once
  kCloneNode,        // another machine says Hello under the node's name
  kKillShim,         // of a running rank: its end leaves no record
  kCrashPoint,       // the process dies at the `amount`th pass of `point`
  kPauseShim,        // SIGSTOP of the shim of a running rank
  kRepeat,           // something that the node was told before is told once more
  // What people ask for. `point` is the key of a job.
  kRequeueJob,  // with `amount`: and is held until it is released after `lasts`
  kHoldJob,     // released after `lasts`
  kDrainNode,   // until `lasts`
  kFenceNode,   // said to have no power, as soon as it is silent; with `amount` it is cut off first
  kForgetNode,  // removed while it is away, and attaches anew; `amount`: see Away, +3 fenced before
  kQuarantine,  // of a node, as soon as it has one: released, or with `amount` tested again
  kRestore,     // a backup is made, and `lasts` later put in the place of the store
  kPutBack,     // the same unnoticed, for a while; then, by `amount`, see Regress
  kReinstall,   // the agent's state directory is gone, it is joined anew after `lasts`; ranks live
                // on
};
inline constexpr int kFaultKinds = 28;
// How it ends that a store went back unnoticed.
enum class Regress { kNewestIsBack, kGoesOn };
// How a node that is to be forgotten goes away.
enum class Away { kAgentKilled, kCutOff, kNoPower };

struct Fault {
  FaultKind kind = FaultKind::kKillController;
  std::int64_t at = 0;
  std::int64_t lasts = 0;  // ms until it heals, or until what died is started again
  std::string node;        // empty: the controller
  std::int64_t amount = 0;
  std::string point;
};

struct PlannedJob {
  std::string key;  // idempotency key
  JobSpec spec;
  std::int64_t at = 0;
  std::optional<std::int64_t> cancel_after;  // ms after the answer
};

struct Schedule {
  std::vector<PlannedJob> jobs;
  std::vector<Fault> faults;
};

Schedule Draw(std::uint64_t seed, const std::vector<std::string>& nodes);
// Only these, by position; absent = all.
Schedule Keep(const Schedule& all, const std::optional<std::set<std::size_t>>& jobs,
              const std::optional<std::set<std::size_t>>& faults);

// One line each, and back: how a history is kept in tests/sim/regressions. Absent: not such text.
struct History {
  std::uint64_t seed = 0;
  Schedule schedule;
};
std::string Format(const History& history);
std::optional<History> ParseHistory(const std::string& text);

std::string Describe(const Fault& fault);
std::string Describe(const PlannedJob& job);
std::string NameOf(FaultKind kind);

}  // namespace launch::sim
