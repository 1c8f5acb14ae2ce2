// Loops over the arguments of a script: `while [ $# -gt 0 ]`, `for a in "$@"`.
#pragma once

#include <cstddef>
#include <string>

#include "planner/line/shell_text.h"

namespace launch {

struct ArgumentLoop {
  std::size_t end = 0;   // index of its `done`; 0: there is no such loop
  std::string variable;  // of `for`; empty: `while`, whose rounds shift
  ShellScript body;
};

ArgumentLoop ArgumentLoopAt(const ShellScript& script, std::size_t at);

}  // namespace launch
