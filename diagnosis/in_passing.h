// Lines that say of themselves that the program went on, or that are no message of it at all.
#pragma once

#include <string_view>

namespace launch {

// "..., skipping", "falling back to ...": whatever stands in the line, or in the traceback right
// beside it, ended nothing.
bool SaysItGoesOn(std::string_view text);

// A dump of arguments, a command as the shell echoes it, the help of an option, a record of data:
// nothing of it happened.
bool IsNoMessage(std::string_view text);

// A shell's word on a command of its script.
bool IsOfShell(std::string_view text);

// The line goes on, or tells of `label` in passing only.
bool IsInPassing(std::string_view text, std::string_view label);

}  // namespace launch
