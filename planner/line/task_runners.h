// Programs that run a task of a file of their own, or of a server: make, just, wandb agent.
#pragma once

#include <string>

#include "planner/line/shell_text.h"

namespace launch {

// "make train", "pixi run train", where the text ends with it; empty: it does not, or what the task
// starts stands in the line.
std::string LastTaskOf(const ShellScript& script);

}  // namespace launch
