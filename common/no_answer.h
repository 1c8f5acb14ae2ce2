// How RuntimeFacts::says begins where the interpreter said nothing of itself.
#pragma once

#include <string_view>

namespace launch {

// The interpreter, or an import in it, took too long.
inline constexpr std::string_view kNoAnswer = "no answer within ";
// The node could not start the interpreter: it had no process, control group or account for it.
inline constexpr std::string_view kNotAsked = "could not be asked: ";

}  // namespace launch
