// Programs that start the processes of a node themselves: fine-tuning CLIs, composer, fabric ...
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

struct OwnLauncher {
  std::string_view program;
  std::string_view procs;  // its flag for processes of a node, with '_'; empty: only those of all
  bool total = false;      // the flag counts the processes of all nodes
  std::string_view sign;   // a word begins so where it starts several; empty: it always does
};

// Null: it is none of them.
const OwnLauncher* OwnLauncherOf(std::string_view program);

// A program that starts torchrun, or its library, by itself: llamafactory-cli, composer, fabric ...
bool StartsRanksItself(std::string_view program);
// The same of the words of a command: some do so for several devices only.
bool StartsRanksItself(const std::vector<ShellWord>& words, std::size_t at);

}  // namespace launch
