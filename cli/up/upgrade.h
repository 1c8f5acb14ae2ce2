// `launch upgrade`: another release on a running cluster, without touching what runs.
#pragma once

#include <string_view>
#include <vector>

#include "cli/contexts.h"
#include "cli/up/bring_up.h"
#include "cli/up/hosts.h"
#include "common/error.h"

namespace launch::up {

// Two versions of one cluster speak to each other when their minor versions are at most one apart.
// kFailedPrecondition where `to` is not such a step up from `from` (or the same).
Result<void> CheckUpgrade(std::string_view from, std::string_view to);

// The controller first, then the agents one after another, each only when the one before has
// reported; after the first failure the others are left as they are, with an error that says so.
// Ranks and their supervisors outlive both. In the order of `set`.
Result<std::vector<HostResult>> Upgrade(const HostSet& set, const UpOptions& options,
                                        Contexts& contexts);

}  // namespace launch::up
