// A job file made from a training line, for `launch init`.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"

namespace launch {

// The fields that the line itself shows (name, nodes, gpus) and the ones people set next, with a
// comment each. Reading it back gives a job with the same `run`. kInvalidArgument: what the planner
// refuses of the line. Files that the line names are read from `cwd`, as `launch plan` reads them.
Result<std::string> JobFileFor(const std::vector<std::string>& words, const std::string& cwd);

}  // namespace launch
