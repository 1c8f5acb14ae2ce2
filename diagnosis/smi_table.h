// Reads a table that nvidia-smi printed into a log.
#pragma once

#include <string>
#include <string_view>

namespace launch {

struct SmiReading {
  // A GPU that holds a good part of its memory, computes nothing, and lists no process although
  // the table has the list of processes.
  bool held_by_nobody = false;
  std::string line;  // that GPU's row
};

// `text` is what follows the line with the version.
SmiReading ReadSmi(std::string_view text);

}  // namespace launch
