// $VAR, ${VAR}, ${VAR:-x} and ${VAR:+x} in values of the job file, against what stands before them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/error.h"

namespace launch {

// `key` is the field the text stands in ("env.PATH"), for the error. kInvalidArgument: a name that
// is not set, or a form that is not one of the four. "\$" is a literal dollar; a dollar before
// anything but a name or a brace is itself.
Result<std::string> ExpandVariables(std::string_view text, std::string_view key,
                                    const std::map<std::string, std::string>& variables);

}  // namespace launch
