// Which disks a store may be on.
#pragma once

#include <string>

#include "common/error.h"

namespace launch::controller {

// A log that several machines write needs locks and shared memory that network file systems lack.
Result<void> RefuseNetwork(const std::string& dir);

}  // namespace launch::controller
