// Directories below one, and never elsewhere, whatever links lie in it.
#pragma once

#include <string>

#include "common/error.h"
#include "common/unique_fd.h"

namespace launch {

// Opened to be entered only (O_PATH). `path` is relative; "." is `dir` itself. kPermissionDenied:
// it leads out by "..", by an absolute path or by a link.
Result<UniqueFd> OpenBeneath(int dir, const std::string& path);

}  // namespace launch
