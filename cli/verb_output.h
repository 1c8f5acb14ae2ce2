// What a verb can print, asked before it does anything.
#pragma once

#include <string>
#include <vector>

#include "cli/app.h"
#include "common/error.h"

namespace launch {

// Checks that the given verb can print in the chosen form. kInvalidArgument: it has no document for
// -o json and yaml, or no table for csv and custom=.
Result<void> MustPrint(const CLI::App& parser, const App& app);

// Whether the command line, which could not be parsed to its end, asks for JSON.
bool AsksForJson(const std::vector<std::string>& words);

}  // namespace launch
