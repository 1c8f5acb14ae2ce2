// The highest fence this node ever obeyed, durable in `<state_dir>/fence`.
#pragma once

#include <string>

#include "common/error.h"
#include "common/file_system.h"
#include "common/node_messages.h"

namespace launch::agent {

inline std::string FencePath(const std::string& state_dir) { return state_dir + "/fence"; }

Result<void> WriteFence(FileSystem& files, const std::string& state_dir, const Fence& fence);

// The stored fence; all zero when there is no file. DATA_LOSS when it is torn: then nothing may be
// obeyed.
Result<Fence> ReadFence(FileSystem& files, const std::string& state_dir);

}  // namespace launch::agent
