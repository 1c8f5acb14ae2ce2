// How RuntimeFacts::says begins for an interpreter, or an import, that took too long.
#pragma once

#include <string_view>

namespace launch {

inline constexpr std::string_view kNoAnswer = "no answer within ";

}  // namespace launch
