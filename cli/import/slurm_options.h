// The options of an sbatch script as sbatch reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace launch {

struct SlurmOption {
  std::string name;   // long name: "gpus-per-node"; unknown ones as written
  std::string value;  // empty = a switch
  int line = 0;
};
struct SlurmScript {
  std::vector<SlurmOption> options;  // the last of a name counts
  std::string body;                  // the commands
  std::vector<int> lines;            // of the file, for each line of the body
  std::vector<int> late;             // #SBATCH lines behind the first command, ignored by sbatch
};

// Long names may be abbreviated, short ones glued ("-N4"); several may stand on a line.
// kInvalidArgument: an abbreviation of several options, an option without its value.
Result<SlurmScript> ReadSlurmScript(std::string_view text, const std::string& path);

bool IsSbatchOption(std::string_view name);  // that this version knows, by its long name

// Slurm's times: "15" and "15:00" are minutes.
Result<std::string> SlurmTime(const std::string& text);

}  // namespace launch
