// Room left on a file system.
#pragma once

#include <cstdint>
#include <string>

#include "common/error.h"

namespace launch {

// Bytes that an unprivileged user may still write to the file system of `path`, which is there.
Result<std::uint64_t> FreeBytes(const std::string& path);

}  // namespace launch
