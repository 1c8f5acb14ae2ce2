// Commands whose output becomes a word: $( ... ) and `...`.
#pragma once

#include <string_view>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

// The command substitutions of a word that may start ranks. Not $(which torchrun), which only asks
// for a program.
std::vector<std::string_view> LaunchingSubstitutions(const ShellWord& word);

}  // namespace launch
