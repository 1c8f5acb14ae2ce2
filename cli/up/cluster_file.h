// hosts.yaml beside a cluster's credentials: what an earlier `up` made from here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/contexts.h"
#include "cli/up/hosts.h"
#include "common/error.h"
#include "common/unique_fd.h"

namespace launch::up {

// The hosts of `cluster`; absent when no `up` was run from here.
Result<std::optional<HostSet>> ReadClusterFile(const Contexts& contexts,
                                               const std::string& cluster);
Result<void> WriteClusterFile(Contexts& contexts, const std::string& cluster, const HostSet& set);
// Removes the file; afterwards ReadClusterFile returns nothing. A missing file is no error.
Result<void> RemoveClusterFile(const Contexts& contexts, const std::string& cluster);

// Clusters for which an `up` was begun from here, even if their controller never answered; sorted.
std::vector<std::string> ClustersWithHosts(const Contexts& contexts);

// Takes the lock that a verb holds while it changes what is on the hosts of a cluster: of two at
// once each would forget what the other did. kConflict when another program holds it.
Result<UniqueFd> LockCluster(const Contexts& contexts, const std::string& cluster);

}  // namespace launch::up
