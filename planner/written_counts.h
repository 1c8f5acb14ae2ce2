// Processes and nodes that the launcher calls inside of a text fix.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/launch_line.h"
#include "planner/launcher_arguments.h"
#include "planner/shell_text.h"
#include "planner/shell_values.h"

namespace launch {

struct WrittenCounts {
  ProcsWord procs = ProcsWord::kNone;
  int procs_number = 0;
  bool total = false;  // procs_number is that of all nodes (accelerate)
  std::optional<int> nodes;
  std::optional<int> devices;                    // CUDA_VISIBLE_DEVICES of the call, as a count
  std::optional<AccelerateSettings> accelerate;  // of the first call of `accelerate launch`
  std::string on_cpu;                            // what in it asks for the CPU
  // Files that the text names and that are not at hand: the absolute path, by the word that names
  // it.
  std::map<std::string, std::string> wanted;
};

// The first call with fixed numbers counts; what only the node knows stays open. Arguments of the
// script have names like these flags and mean something else. `files`: texts that the job names.
WrittenCounts CountsIn(const ShellScript& script, const LaunchLineOptions& options);

}  // namespace launch
