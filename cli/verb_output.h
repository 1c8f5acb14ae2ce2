// What a verb can print, asked before it does anything.
#pragma once

#include <string>
#include <vector>

#include "cli/app.h"
#include "common/error.h"

namespace launch {

// "token list", as the verb is typed.
std::string VerbPath(const CLI::App& verb);

// The verb that a parsed command line names, the innermost; the parser itself where it names none.
const CLI::App& GivenVerb(const CLI::App& parser);

// Checks that the given verb can print in the chosen form. kInvalidArgument: it has no document for
// -o json and yaml, or no table for csv and custom=.
Result<void> MustPrint(const CLI::App& parser, const App& app);

// Whether the command line, which could not be parsed to its end, asks for JSON.
bool AsksForJson(const std::vector<std::string>& words);

}  // namespace launch
