// What `make TARGET` runs, of makefiles without conditions, functions and included files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/line/launcher_arguments.h"
#include "planner/line/shell_text.h"

namespace launch {

struct MakeCall {
  std::string shown;      // "make train"
  std::string directory;  // of -C; empty: none
  std::string file;       // of -f; empty: the usual names
  std::vector<std::string> goals;
  std::map<std::string, std::string, std::less<>> variables;  // "NGPU=4"
  bool at_once = false;                                       // several recipes: "-j 2"

  // Paths where the call's makefile may lie; the first that exists counts.
  std::vector<std::string> Paths() const;
};

// The command as a call of make; absent: it calls another program, or has words that only the start
// knows.
std::optional<MakeCall> MakeCallOf(const ShellCommand& command, const KnownVariables& known);

// The recipes of the goals and of what these need, as a text for bash. Absent: the makefile is more
// than is read here.
std::optional<std::string> RecipesOf(std::string_view makefile, const MakeCall& call);

}  // namespace launch
