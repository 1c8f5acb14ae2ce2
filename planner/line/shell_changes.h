// Variables that a command changes by other means than an assignment: read, ((N++)), for.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

std::vector<std::string> NamesChanged(const ShellCommand& command);

// Names that the command declares local to the function in which it stands.
std::vector<std::string> LocalNames(const ShellCommand& command);

// A file or a text that may change any variable: `source setup.sh`, `eval "$X"`.
bool MayChangeAny(const ShellCommand& command);

// Whether the command may set the positional parameters: "set -- a b", "eval set -- "$OPTIONS"".
bool MaySetParameters(const ShellCommand& command);

// Whether the word names a variable for which `is` holds.
bool NamesOneThat(std::string_view word, const std::function<bool(std::string_view)>& is);

// Whether bash puts the value of such a variable into the word, or what a command prints.
bool ExpandsOneThat(std::string_view word, const std::function<bool(std::string_view)>& is);

}  // namespace launch
