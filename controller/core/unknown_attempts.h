// Attempts that nodes have and this store does not know: it went back in time (a backup, a copy of
// the disk). They may be what should run, so nobody but a person ends them, their GPUs are held,
// and their jobs do not start beside them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/core/draft.h"

namespace launch::controller {

// Of a job that is not here, or newer than its newest.
bool IsUnknownHere(const State& state, const Key& key);
// "job" or "attempt".
std::string_view WhatIsUnknown(const State& state, const Key& key);

// What this store takes for the newest attempt ended in its absence, or must not begin: nobody
// failed, and it costs no retry.
void RequeueForNewer(Draft& draft, JobId id);

// One that the node had when it was last heard, or for which its GPUs are held.
std::optional<Key> UnknownOn(const State& state, const NodeId& node);

// What a node that may not speak for itself now says that it runs.
void NoteUnknown(Draft& draft, const NodeId& node, const from_node::Hello& hello);
// One of them, of a job that is here: it starts nothing beside it, and its next number is higher.
void ClaimUnknown(Draft& draft, const NodeId& node, const Key& key);
// A node has another attempt of its job, which must not run beside it.
bool IsClaimedBeside(const State& state, const Key& key);
// Leaves it alone, unless a person cancelled its job since this controller began: an older cancel
// may be of before somebody wanted this attempt. The GPUs that it names and the node may speak for
// are held until it is gone.
void KeepUnknown(Draft& draft, const NodeId& node, const AllocationStatus& status);
// It ended there.
void ForgetUnknown(Draft& draft, const NodeId& node, const Key& key);
// All of the node: it says anew what it has, or has nothing any more.
void ForgetUnknownOf(Draft& draft, const NodeId& node);

// Of the job, on every node that answers; one that does not is told when it is back.
void StopUnknown(Draft& draft, JobId job);

// A person asks for the end of the job: that is a word on its parts that nobody sees, too, which
// one that was given before they were unseen is not.
void EndUnseen(Draft& draft, JobId job);

// Why the job must not start now, or empty.
std::string WhyRunsAlready(const State& state, JobId job);

}  // namespace launch::controller
