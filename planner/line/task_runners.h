// Programs that run a task of a file of their own, or of a server: make, just, wandb agent.
#pragma once

#include <string>

#include "planner/line/shell_text.h"

namespace launch {

// The call of a task runner with which the text ends: "make train", "pixi run train". Empty: it
// ends with none, or what the task starts stands in the line.
std::string LastTaskOf(const ShellScript& script);

}  // namespace launch
