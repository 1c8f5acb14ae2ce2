// The number of an agent's installation, made at join.
#pragma once

#include <cstddef>

namespace launch {

// How many digits at the start of an install id are the node's in its cluster, whichever
// installation it is; the name of the node's control groups ends with them. The others are random.
inline constexpr std::size_t kInstallDigits = 8;

}  // namespace launch
