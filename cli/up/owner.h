// Whose node or controller a machine is, and whether it may be ended in the name of a cluster.
#pragma once

#include <string>

#include "cli/up/bring_up.h"
#include "cli/up/host_facts.h"
#include "cli/up/hosts.h"
#include "common/error.h"

namespace launch::up {

// Checks that the machine may be this node: kFailedPrecondition where its certificate is another
// node's.
Result<void> MustBeNode(const Host& host, const HostFacts& facts);
// kFailedPrecondition that names the cluster whose agent or controller is on it, and the way to
// end that one.
Unexpected BelongsToAnother(const Host& host, const HostFacts& facts, const UpOptions& options);

// Whether the ending is one of what is on this machine; `of_others` of the result is set where it
// is not, or where the machine is another node.
Result<void> MustBeEnded(HostResult& result, const HostSet& set, const UpOptions& options,
                         const Ending& ending);

// Whose machine it is: "the node gpu1 of cluster lab"; empty: nobody's.
std::string WhatIsThere(const HostFacts& facts);

}  // namespace launch::up
