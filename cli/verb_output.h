// What a verb can print, asked before it does anything.
#pragma once

#include <string>
#include <vector>

#include "cli/app.h"
#include "common/error.h"

namespace launch {

// kInvalidArgument: the verb that was given has no document for -o json and yaml, or no table for
// csv and custom=.
Result<void> MustPrint(const CLI::App& parser, const App& app);

// Whether a line asks for JSON that could not be read to its end, which would tell.
bool AsksForJson(const std::vector<std::string>& words);

}  // namespace launch
