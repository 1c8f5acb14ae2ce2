// What the commands of a text are for its job, as far as the text itself tells.
#pragma once

#include <string>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

// How much a command looks like the training.
inline constexpr int kLauncherWeight = 2;
inline constexpr int kProgramWeight = 1;  // Python, or a script

struct CommandRole {
  std::string verb;      // its first word behind keywords, assignments, `exec` and `time`
  std::string launcher;  // that it calls, also by way of a variable, an array or a function
  int weight = 0;
  bool waits = false;   // stays for what was left in the background
  bool leaves = false;  // a function that leaves what weighs so much in the background
  friend bool operator==(const CommandRole&, const CommandRole&) = default;
};

// One role for each command. Commands in the body of a function have theirs there; calls of the
// function have the role of its body.
std::vector<CommandRole> RolesOf(const ShellScript& script);

}  // namespace launch
