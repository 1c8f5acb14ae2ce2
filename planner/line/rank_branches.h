// Launchers that only one node of several would start.
#pragma once

#include <string>

#include "planner/line/shell_text.h"

namespace launch {

// The condition on a node's rank that all launchers of the text stand behind, while its other
// branch has none: `if [ "$NODE_RANK" = 0 ]; then deepspeed ...; fi`. Empty: there is none.
std::string ConditionOfOneNode(const ShellScript& script);

}  // namespace launch
