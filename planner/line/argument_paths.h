// The files that a training line names beside its script: data that every node must have.
#pragma once

#include <string>
#include <vector>

#include "planner/line/launch_line.h"

namespace launch {

// Absolute paths among the line's arguments. Those of flags that name what is written (output, log,
// checkpoint, cache ...) are left out; those of flags that name what is read are `inputs`.
struct ArgumentPaths {
  std::vector<std::string> inputs;
  std::vector<std::string> others;
};

ArgumentPaths PathsOf(const LaunchLine& line);

}  // namespace launch
