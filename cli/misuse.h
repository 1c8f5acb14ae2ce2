// What to say of a command line that could not be parsed.
#pragma once

#include <string>
#include <vector>

#include "cli/app.h"
#include "common/error.h"

namespace CLI {
class App;
class ParseError;
class RequiredError;
}  // namespace CLI

namespace launch {

// The words of a command line without the program's name and without what stands behind `--`.
using Words = std::vector<std::string>;

// An option or argument that is missing, or the verb itself.
Error MissingWord(const CLI::RequiredError& error, const CLI::App& parser);

// Everything else: a word too much, a value of the wrong kind. A command or a change that somebody
// gave without `--` is answered with the line that he meant; `has_rest`: one stands there already.
Error WrongWord(const CLI::ParseError& error, const CLI::App& parser, const Words& words,
                bool has_rest);

}  // namespace launch
