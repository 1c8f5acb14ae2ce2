// A running attempt that stands still: noticed from its samples, explained by its ranks' stacks.
#pragma once

#include <vector>

#include "controller/core/draft.h"

namespace launch::controller {

// Looks at what a node measured, before it is taken over into the live state. When nothing of an
// attempt has printed, made a step or used a GPU for `hang.after`, its nodes are asked where the
// ranks stand; when life returns, that is said and the verdict goes.
void WatchHang(Draft& draft, const NodeId& node, const from_node::Samples& said);

// Takes over where a rank stands. The last rank to answer, or a time limit, brings the verdict.
void NoteStacks(Draft& draft, const NodeId& node, const from_node::Stacks& said);

// Findings for the status of a job that stands still now.
std::vector<Finding> HangWarnings(const State& state, const Key& key);

// Whether the verdict came from standing ranks, not from the end of one.
bool IsOfHang(const Verdict& verdict);

}  // namespace launch::controller
