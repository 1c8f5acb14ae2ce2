// Loops over the arguments of a script: `while [ $# -gt 0 ]`, `for a in "$@"`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

struct ArgumentLoop {
  std::size_t end = 0;    // index of its `done`; 0: there is no such loop
  std::string variable;   // of `for`; empty: `while`, whose rounds shift
  bool counted = false;   // its head alone says how many rounds there are
  bool to_empty = false;  // an empty argument ends it: `[ -n "$1" ]`
};

// A `for` over the arguments, or a `while` or `until` that asks for them or shifts.
ArgumentLoop ArgumentLoopAt(const ShellScript& script, std::size_t at);

// The commands between `do` and `done`.
ShellScript BodyOf(const ShellScript& script, std::size_t at, const ArgumentLoop& loop);

// How long the text of the commands is.
std::size_t BytesOf(const ShellScript& script);

}  // namespace launch
