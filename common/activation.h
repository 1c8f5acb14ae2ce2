// The text in front of a rank's command that runs the activation scripts of its environment.
#pragma once

#include <string_view>

#include "common/launch.h"

namespace launch {

// How that text ends, argv[3] of the rank: what stands behind argv[4] is the command of a shell
// that has what the scripts exported.
inline constexpr std::string_view kActivatedCommand = "exec /bin/bash --norc -c \"$@\"\n";

inline bool IsActivated(const RankSpec& rank) {
  return rank.argv.size() > 5 && rank.argv[3].ends_with(kActivatedCommand);
}

}  // namespace launch
