// Attempts that nodes have and this store does not know: it went back in time (a backup, a copy of
// the disk). They may be what should run, so nobody but a person ends them, their GPUs are held,
// and their jobs do not start beside them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/core/draft.h"

namespace launch::controller {

// Whether the attempt is of a job that this store does not know, or newer than the newest one that
// it knows of that job.
bool IsUnknownHere(const State& state, const Key& key);
// What this store does not know of `key`: "job" or "attempt".
std::string_view WhatIsUnknown(const State& state, const Key& key);

// Requeues the job: the attempt that this store takes for its newest has ended meanwhile, or must
// not begin. Nobody failed, so this costs no retry.
void RequeueForNewer(Draft& draft, JobId id);

// An unknown attempt that the node had when it was last heard, or for which its GPUs are held.
std::optional<Key> UnknownOn(const State& state, const NodeId& node);

// Claims every attempt that a node reports to run, though it may not speak for itself now.
void NoteUnknown(Draft& draft, const NodeId& node, const from_node::Hello& hello);
// Records that `node` runs the unknown attempt `key`. If its job is in the store, the job starts
// nothing beside it, and its next attempt has a higher number.
void ClaimUnknown(Draft& draft, const NodeId& node, const Key& key);
// Whether a node has another, unknown attempt of the job, so that `key` must not run beside it.
bool IsClaimedBeside(const State& state, const Key& key);
// Lets the unknown attempt run on, unless a person cancelled its job since this controller started:
// an older cancel may be from before somebody wanted this attempt. The GPUs that it names, if the
// node may speak for them, are held until it is gone.
void KeepUnknown(Draft& draft, const NodeId& node, const AllocationStatus& status);
// Forgets the unknown attempt `key` of `node`: it ended there.
void ForgetUnknown(Draft& draft, const NodeId& node, const Key& key);
// Forgets all unknown attempts of `node`: it reports anew what it has, or has nothing any more.
void ForgetUnknownOf(Draft& draft, const NodeId& node);

// Stops the unknown attempts of the job on every node that answers; a node that does not is told
// when it is back.
void StopUnknown(Draft& draft, JobId job);

// A person asks for the end of the job: that holds for its parts that nobody sees, too. A request
// from before they went unseen does not.
void EndUnseen(Draft& draft, JobId job);

// A node that was not heard since the controller started and is not fenced: it may run what this
// store does not know. Null: there is none.
const NodeId* NodeToReport(const State& state);

// Why the job must not start now, or empty.
std::string WhyRunsAlready(const State& state, JobId job);

}  // namespace launch::controller
