// The shell script that a command runs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"

namespace launch {

struct CalledScript {
  std::string path;      // empty: none, or what names it is known at the start only
  std::string shown;     // as written; empty: no script is called
  bool sourced = false;  // source, `.`: in the shell itself
  bool by_name = false;  // a shell's argument, or NAME.sh; else any program, a script by its text
  std::size_t word = 0;  // its index in the command
};

// The script that the command calls: "bash -eo pipefail train.sh", "timeout 60 ./train.sh",
// "bash < train.sh", "./train".
CalledScript CalledScriptOf(const ShellCommand& command, const KnownVariables& known);

// A program that is a shell script: "#!/usr/bin/env bash".
bool IsShellScript(std::string_view text);

// The path alone, as far as it is written out and sure to be a script; empty otherwise.
std::string ShellScriptOf(const ShellCommand& command);

}  // namespace launch
