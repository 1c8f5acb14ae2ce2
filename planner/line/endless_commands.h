// Servers and `tail -f` in the foreground: a text does not come behind them.
#pragma once

#include <optional>
#include <string>

#include "common/diagnosis.h"
#include "planner/line/shell_text.h"

namespace launch {

// What a text says of one that keeps its training from starting, or its job from ending. `where`:
// what the text is, for people.
std::optional<Finding> EndlessCommand(const ShellScript& script, const std::string& where = "run");

}  // namespace launch
