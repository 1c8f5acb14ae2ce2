// What an agent does next: a pure step function over its allocations, its link and its clock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/seams.h"
#include "common/clock.h"
#include "common/node_messages.h"

namespace launch::agent {

// Phase of one allocation (a Key on this node). The wire knows fewer words: see WirePhase.
//
//   phase      | meaning                                | waits for
//   -----------+----------------------------------------+-------------------------------
//   accepting  | order::Accept given                    | AcceptDone
//   accepted   | fence durable, GPUs and ports held     | Stage, Go
//   staging    | order::StageAllocation given           | StageDone
//   ready      | staged, facts known                    | Go
//   starting   | order::Start given                     | StartDone
//   started    | every rank was started                 | RankEnded of each rank
//   stopping   | order::StopAllocation given            | StopDone
//   released   | nothing is left, but for `held` GPUs   | ExitAck of each exit, Forget
//   dropped    | never started, gave up waiting         | Forget (or a new Prepare)
//   unreadable | found on disk or in the kernel, not    | Stop, or its processes to be gone where
//              | understood                             | there is no record; holds GPUs until then
//
// What each phase does with an event ("again" = the same answer as before, nothing else):
//
//   event        | accepting accepted staging  ready    starting started  stopping released dropped
//   -------------+---------------------------------------------------------------------------------
//   Prepare same | wait      again    again    again    again    again    refuse   refuse   accept
//   Prepare other| refuse    refuse   refuse   refuse   refuse   refuse   refuse   refuse   refuse
//   Stage        | ignore    stage    wait     again    ignore   ignore   ignore   ignore   refuse
//   Go           | refuse    start    refuse   start    wait     again    refuse   refuse   refuse
//   Stop         | stop      stop     stop     stop     stop     stop     wait     again    stop
//   AcceptDone   | accepted  -        -        -        -        -        -        -        -
//   StageDone    | -         -        ready    -        -        -        -        -        -
//   StartDone ok | -         -        -        -        started  -        note     note     -
//   StartDone bad| -         -        -        -        stop     -        note     note     -
//   RankEnded    | -         -        -        -        report   report   report   report   -
//   all ended    | -         -        -        -        stop     stop     -        -        -
//   StopDone     | -         -        -        -        -        -        released changes  -
//   60 s silence | -         drop     drop     drop     -        -        -        -        -
//   Forget       | ignore    ignore   ignore   ignore   ignore   ignore   ignore   forget   forget
//   Pong, leased | -         -        -        -        extend   extend   extend   -        -
//   Retest (held)| -         -        -        -        -        -        -        stop or  -
//                |                                                              give back
//   unreadable Stage, Go: refused where they would be obeyed, ignored once started
//   CollectStacks| ignore    ignore   ignore   ignore   ignore   collect  ignore   ignore   ignore
//   OpenExec     | say no    say no   say no   say no   say no   dial     say no   say no   say no
//   ... of a copy| dial, whatever the phase: what an attempt left
//
// A key that is not known: Prepare accepts, Stage is ignored, Go is refused, Stop leaves a
// tombstone.
enum class Phase {
  kAccepting,
  kAccepted,
  kStaging,
  kReady,
  kStarting,
  kStarted,
  kStopping,
  kReleased,
  kDropped,
  kUnreadable,
};

struct RankState {
  bool started = false;
  std::int64_t pid = 0;  // display only
  std::optional<ExitReport> exit;
  bool acked = false;  // the controller has committed the exit
};

struct Allocation {
  Phase phase = Phase::kAccepting;
  std::string digest;
  std::optional<AllocationSpec> spec;  // absent: tombstone of an unknown key, or unreadable
  // Between Prepare and Go only. Never saved: after a restart a repeated Prepare brings them again.
  std::optional<std::vector<std::pair<std::string, std::string>>> secrets;
  std::optional<PortBlock> ports;
  std::map<Rank, RankState> ranks;
  std::vector<GpuUuid> gpus;
  bool was_dropped = false;             // before it was prepared again: its directory is there
  std::optional<to_node::Stage> stage;  // newest request
  std::optional<StagingFacts> facts;    // its answer
  std::optional<FailedToStart> start_failed;
  BootTime accepted_at{};  // start of the 60 s without a pong
  Millis stop_grace{0};    // of the ladder in progress
  StopCause stop_cause = StopCause::kNone;
  bool stop_at_once = false;  // somebody cancelled what another cause was ending
  std::vector<std::pair<GpuUuid, std::string>> held;  // of the last StopDone
  std::vector<std::pair<Rank, std::uint64_t>> log_ends;
  BootTime retry_at{};  // of the free proof, while something is held
  // End of the lease of a leased allocation, from its start on. Never later than the send time of
  // the newest message that the controller answered, plus the lease; once over it is over for good.
  std::optional<BootTime> lease_end;
  std::set<GpuUuid> given_back;  // by an operator, although the proof still fails
  bool lease_unread = false;     // after a restart: only its shims know the end
  bool forget = false;           // asked for while something was held or not acknowledged
};

// Who this agent is; fixed while it runs.
struct AgentIdentity {
  NodeId node;
  std::string version;
  MachineIdentity machine;
  std::string boot_id;
  std::string instance;  // random, of this life
  // The account that all ranks run as, so that only its user's jobs may run here; absent: each rank
  // runs as its job's owner.
  std::optional<UserName> account;
  std::set<std::string> system_processes;  // names whose presence on a GPU is no claim to it
};

struct LinkState {
  std::uint64_t stream = 0;  // newest ever seen; 0 = none yet
  bool up = false;           // the stream is open
  bool greeted = false;      // Hello was sent on it (it waits for the first inventory)
  bool welcomed = false;
  std::uint64_t session = 0;        // of Welcome
  std::uint64_t told_revision = 0;  // of the inventory, on this stream
  Millis beat{1000};
  Millis samples{5000};
  std::uint64_t beats = 0;
  BootTime next_beat{};
  BootTime last_pong{};  // or Welcome; at start: the start itself
  BootTime next_resend{};
  BootTime hello_sent{};
  std::map<std::uint64_t, BootTime> unanswered;  // when each beat was sent; the newest few
};

struct AgentState {
  AgentIdentity identity;
  Fence fence;  // highest obeyed; durable, but for the revision while `fence_retry_at` is set
  std::optional<BootTime> fence_retry_at;  // the disk refused the newest revision
  std::string cgroups;                     // as of RunnerState
  LinkState link;
  std::optional<BootTime> answered;  // send time of the newest word that the controller answered
  std::map<Key, Allocation> allocations;
  std::map<JobId, Attempt> floors;  // highest attempt seen per job, until Forget
  std::optional<NodeInventory> inventory;
  std::map<GpuUuid, std::vector<GpuProcess>> processes;
  BootTime processes_at{};
  std::map<GpuUuid, BootTime> released_at;  // an older process list says nothing about the GPU
  std::vector<from_node::Notice> notices;   // kept while there is no link; the newest few
};

// An unstarted allocation is dropped after this long without a pong.
inline constexpr Millis kUnstartedSilence{60'000};
// The free proof of a quarantined GPU is tried again after this long.
inline constexpr Millis kProofRetry{60'000};
// Exits not yet acknowledged are sent again after this long on a live link.
inline constexpr Millis kResend{15'000};
// A revision that could not be made durable is tried again after this long.
inline constexpr Millis kFenceRetry{15'000};
// A process list this young may still show ranks that were just released.
inline constexpr Millis kProcessListLag{2'000};

struct Recovery {
  AgentState state;
  std::vector<Order> orders;  // to run before anything else: interrupted stops, free proofs
};

// The state of an agent that starts: what the runner found on disk and in the kernel.
Recovery Recover(AgentIdentity identity, const RunnerState& found, BootTime now);

// The only mutator. Orders are to be carried out in the order given. Timers run on told::Tick only,
// so a backlog of messages is always handled before any deadline is judged.
std::vector<Order> Step(AgentState& state, const Told& event, BootTime now);

// A Step whose orders are carried out one by one. A fence that cannot be made durable (disk full)
// does not end the agent. If it is that of a new leader nothing may be obeyed: the step is taken
// back, the link is closed, and the next dial tries again. If it is that of a new revision, which
// only serves to detect a store that went back in time, the controller gets a notice and the write
// is tried again.
using CarryOut = std::function<Result<void>(const Order&)>;  // may fail for order::SaveFence only
void Act(AgentState& state, const Told& event, BootTime now, const CarryOut& carry_out);

// When the next told::Tick is due; absent = only when something happens.
std::optional<BootTime> NextDeadline(const AgentState& state);

// The allocation's phase as the wire names it; absent for what the controller has not been told
// yet.
std::optional<AllocationPhase> WirePhase(const Allocation& allocation);

}  // namespace launch::agent
