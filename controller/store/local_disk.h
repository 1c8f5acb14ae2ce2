// The disk that a store is on.
#pragma once

#include <string>

#include "common/error.h"

namespace launch::controller {

// A log that several machines write needs locks and shared memory that network file systems lack.
Result<void> RefuseNetwork(const std::string& dir);

// What was written to a file, or the names in a directory (O_DIRECTORY), survive a power loss.
Result<void> SyncPath(const std::string& path, int flags);

}  // namespace launch::controller
