// Directories below one, and never elsewhere, whatever links lie in it.
#pragma once

#include <string>

#include "common/error.h"
#include "common/unique_fd.h"

namespace launch {

// Opens `path` below the directory `dir`, to be entered only (O_PATH). `path` is relative; "." is
// `dir` itself. kPermissionDenied: it leads out of `dir` by "..", an absolute path or a link.
Result<UniqueFd> OpenBeneath(int dir, const std::string& path);

}  // namespace launch
