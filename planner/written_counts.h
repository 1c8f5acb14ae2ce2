// Processes and nodes that the launcher calls inside of a text fix.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/launcher_arguments.h"
#include "planner/shell_text.h"
#include "planner/shell_values.h"

namespace launch {

struct WrittenCounts {
  ProcsWord procs = ProcsWord::kNone;
  int procs_number = 0;
  bool total = false;  // procs_number is that of all nodes (accelerate)
  std::optional<int> nodes;
  std::optional<int> devices;  // CUDA_VISIBLE_DEVICES of the call, as a count
};

// The first call with fixed numbers counts; what only the node knows stays open. Arguments of the
// script have names like these flags and mean something else. `files`: texts that the job names.
WrittenCounts CountsIn(const ShellScript& script, KnownVariables known,
                       const std::map<std::string, std::string>& files);

// A program that starts torchrun, or its library, by itself: llamafactory-cli, composer, fabric ...
bool StartsRanksItself(std::string_view program);
// The same of the words of a command: some do so for several devices only.
bool StartsRanksItself(const std::vector<ShellWord>& words, std::size_t at);

}  // namespace launch
