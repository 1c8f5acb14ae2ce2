// Whether a job gets a copy of its working directory, and its way to the controller.
#pragma once

#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/job_arguments.h"
#include "cli/snapshot/workdir_copy.h"

namespace launch {

// A copy beside workdir in place is made without being asked for only up to this size.
inline constexpr std::uint64_t kUnaskedCopyBytes = std::uint64_t{256} << 20;

enum class Shipping { kNever, kIfNotShared, kAlways };

// Where `snapshot:` says nothing, a copy goes along when a node is another machine than this one
// and workdir lies on a disk of this machine: the nodes use it only if they do not see workdir.
Shipping ShippingOf(const JobSpec& spec, bool other_machines, bool network_file_system);

// Whether one of the nodes has none of this machine's addresses.
bool AnyOtherMachine(const std::vector<NodeView>& nodes, const std::vector<std::string>& own);

// Fills in what `plan` and `submit` say about the copy; with `upload` its chunks are at the
// controller when this returns.
Result<void> ShipWorkdir(const App& app, Client& client, PreparedJob& job, bool upload);

}  // namespace launch
