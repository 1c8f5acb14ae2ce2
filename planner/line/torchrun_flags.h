// The flags of torchrun (and of torch.distributed.launch), read as its own argument parser does.
#pragma once

#include <vector>

#include "common/error.h"
#include "planner/line/launcher_arguments.h"

namespace launch {

// `words` starts behind "torchrun". kUnimplemented: a flag that is not known or changes what ranks
// are; kInvalidArgument: a value that torchrun itself would refuse, or no script.
Result<LauncherArguments> ReadTorchrun(const std::vector<ShellWord>& words, std::size_t first,
                                       bool launch_module, const KnownVariables& known);

}  // namespace launch
