// Completion of the command line for shells, made from the parser itself.
#pragma once

#include <string>

#include "common/error.h"

namespace CLI {
class App;
}

namespace launch {

// A script for bash, zsh or fish: verbs, their verbs and their flags. kInvalidArgument: another
// shell.
Result<std::string> CompletionScript(CLI::App& parser, const std::string& shell);

}  // namespace launch
