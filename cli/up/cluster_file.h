// hosts.yaml beside a cluster's credentials: what an earlier `up` made from here.
#pragma once

#include <optional>
#include <string>

#include "cli/contexts.h"
#include "cli/up/hosts.h"
#include "common/error.h"

namespace launch::up {

// Absent when no `up` was run from here.
Result<std::optional<HostSet>> ReadClusterFile(const Contexts& contexts,
                                               const std::string& cluster);
Result<void> WriteClusterFile(Contexts& contexts, const std::string& cluster, const HostSet& set);

}  // namespace launch::up
