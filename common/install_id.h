// The number of an agent's installation, made at join.
#pragma once

#include <cstddef>

namespace launch {

// Its first digits are those of the node in its cluster, whichever installation it is, and end the
// name of the node's control groups; the others are random.
inline constexpr std::size_t kInstallDigits = 8;

}  // namespace launch
