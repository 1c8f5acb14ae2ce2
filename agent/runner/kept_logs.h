// Logs of attempts that are forgotten: <state_dir>/logs/J.N/rank.R/{out,err}[.index].
#pragma once

#include <string>

#include "agent/runner/attempt_dir.h"
#include "common/error.h"
#include "common/file_system.h"

namespace launch::agent {

// Moves the logs of an attempt to the directory `kept`. After an error some are there and the
// others where they were: nothing is lost, and it can be called again.
Result<void> KeepLogs(const AttemptDir& dir, const std::string& kept, FileSystem& files);

}  // namespace launch::agent
