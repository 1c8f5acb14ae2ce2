// Names of conda environments and where they lie, as this machine's conda knows them.
#pragma once

#include <string>

#include "common/error.h"

namespace launch {

// What tells: the caller's variables and conda's own list of environments.
struct CondaFacts {
  std::string prefix;        // CONDA_PREFIX: the active environment
  std::string program;       // CONDA_EXE: BASE/bin/conda
  std::string environments;  // text of ~/.conda/environments.txt: a prefix a line
};
CondaFacts ReadCondaFacts();

// The prefix of an environment: a path stays, "base" and a name are looked up. kInvalidArgument
// with the names that are known.
Result<std::string> CondaPrefix(const std::string& name, const CondaFacts& facts);

}  // namespace launch
