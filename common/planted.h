// Bugs that tests plant on purpose: a checker that finds none of them proves nothing.
#pragma once

// Planted(Bug::kX) is constant false, and its branch gone, in every build but `sim_mutants` and
// `guard_mutants` of tests/sim, whose mains choose one.
namespace launch {

enum class Bug {
  kNone,
  kUnsyncedStore,        // a commit returns before its bytes are on the disk
  kEffectsBeforeCommit,  // messages and answers leave before the commit
  kUnsyncedAccept,       // an accepted attempt is forgotten by a power loss
  kReusedAttempt,        // a retry takes the number of the attempt before it
  kRememberedPid,        // a stop kills by number, whoever has the number by then
  kEarlyRelease,         // the ladder's end is told before anything is proved gone
  kReleaseAtExit,        // GPUs come back with the exit report, not with the proof
  kSilentIsDead,         // a silent node's ranks are given up and replaced
  kUncheckedRestart,     // an agent offers its GPUs after a restart without looking
  kLostExit,             // exits from before an agent restart are not told
  kOldCancel,            // a cancel of before the store went back ends what it does not know
  kKeptDirectory,        // a node is never told that it may forget an attempt
  kAckWithoutRecord,     // an exit is acknowledged, but not written down
  kForgottenQuarantine,  // a quarantine ends when the agent that asked for it is started again
  kForgottenCancel,      // a cancel of a job that starts is not looked at again
  kDoubleSubmit,         // the same key makes a second job
  kWallTimeLimit,        // time limits follow the wall clock
  kLeaseFromPong,        // a lease counts from when the answer came
  kLeaseByWall,          // the controller counts leases by the wall clock
  kLeaseOfAgent,         // only a living agent ends ranks whose lease is over
  kLeaseOfShim,          // only a shim ends a rank whose lease is over
  kLowerAttempt,         // an agent accepts an attempt below one that it has seen
  kUnboundedFollower,    // a follower that does not read makes the controller keep all that comes
  kUncheckedRows,  // a start takes rows of the store as they are, whatever their checksums say
  kUncheckedCall,  // one call is served to anybody with a certificate
  kOfferedPlace,   // the place that a job keeps between two attempts is offered to others
  kPipedOutput,    // what a rank prints goes through the agent
  kDrainedOffer,   // a drained node is offered to jobs
  kForgetHeld,     // a node is forgotten whatever it runs
  kRestoreBeside,  // after a restore an attempt that was being prepared is taken for never begun
  kRegressTaken,   // a node obeys a store that lost what the node has seen
  kPrefixIds,      // who is called like the beginning of an owner's name is taken for him
};

#ifdef LAUNCH_PLANTED_BUGS
inline Bug planted_bug = Bug::kNone;  // set once, before anything runs
inline bool Planted(Bug bug) { return planted_bug == bug; }
#else
constexpr bool Planted(Bug) { return false; }
#endif

}  // namespace launch
