// Programs that start a training elsewhere or out of reach: srun, mpirun, ssh, docker run, ray job
// submit. launch starts the ranks itself; such a line is refused with what to write instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/shell_text.h"

namespace launch {

struct RefusedStarter {
  std::string program;  // "srun", "docker run"
  std::string hint;     // what to write instead
};

// The one at words[at], where a command may stand. Programs that are used for other things too
// (ssh, docker) count only when Python or a launcher stands behind them.
std::optional<RefusedStarter> FindRefused(const std::vector<ShellWord>& words, std::size_t at);

// The hint for a name that FindRefused gave; empty for another.
std::string HintInsteadOf(std::string_view program);

}  // namespace launch
