// Hjson, in which DeepSpeed reads its configuration: JSON with comments, commas that may be missing
// or too many, and keys and texts without quotes.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"

namespace launch {

// The values of a Hjson text as JSON, keys in their order and as often as they are written; a root
// without braces is an object. kInvalidArgument with line and column for what the Python package
// hjson 3.1.0 refuses, for ''' texts, and for more than 64 levels.
Result<std::string> JsonOfHjson(std::string_view text);

}  // namespace launch
