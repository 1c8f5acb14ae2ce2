// What stands as text in pickles of checkpoints: looked for byte by byte, never unpickled.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/runner/checkpoint_files.h"

namespace launch::agent {

// Calls `found` with each `__R_I.distcp` that torch.distributed.checkpoint's metadata at `path` has
// as a string, in any order and perhaps more than once, until it returns false.
void ForEachDcpShard(const std::string& path, ReadBudget* budget,
                     const std::function<bool(std::string_view name)>& found);

// Whether DeepSpeed's model states at `path` say that the optimizer of its ranks is in files beside
// them, as with any stage of ZeRO. Absent where they do not say.
std::optional<bool> OptimizerIsBeside(const std::string& path, ReadBudget* budget);

}  // namespace launch::agent
