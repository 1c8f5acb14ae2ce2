// Fetches pieces of copied working directories from the controller, on a connection of its own.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "agent/link/controller_link.h"
#include "agent/runner/workdir_copy.h"
#include "common/error.h"
#include "common/file_system.h"

namespace launch::agent {

// Blocking; the controllers are tried in order until one answers. Ends within seconds of `cancel`,
// and when nothing came for a while.
Result<void> FetchFromController(const LinkSettings& settings, FileSystem& files,
                                 const std::vector<std::string>& digests, const TakeChunk& take,
                                 const std::atomic<bool>& cancel);

}  // namespace launch::agent
