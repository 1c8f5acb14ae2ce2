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

// Blocking; the controllers are tried in order, again and again: one that is restarted meanwhile
// costs time only. Ends within seconds of `cancel`, and when nothing came for two minutes.
Result<void> FetchFromController(const LinkSettings& settings, FileSystem& files, JobId job,
                                 const std::vector<std::string>& digests, const TakeChunk& take,
                                 const std::atomic<bool>& cancel);

}  // namespace launch::agent
