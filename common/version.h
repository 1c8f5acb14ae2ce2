// The version of this build, as CMakeLists.txt names it.
#pragma once

#include <string_view>

namespace launch {

std::string_view Version();  // "0.1.0"

}  // namespace launch
