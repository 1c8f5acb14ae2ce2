// Programs that start a training elsewhere or out of reach: srun, mpirun, ssh, docker run, ray job
// submit. launch starts the ranks itself; such a line is refused with what to write instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"
#include "planner/line/shell_text.h"

namespace launch {

struct RefusedStarter {
  std::string program;  // "srun", "docker run"
  // The program is used for other things too: refused only where Python or a launcher follows it.
  bool only_with_training = false;
  bool starts_ranks = false;  // srun, mpirun: also refused beside a launcher
  bool returns = false;       // it ends while what it started goes on
};

// The one at words[at], where a command may stand.
std::optional<RefusedStarter> FindRefused(const std::vector<ShellWord>& words, std::size_t at);

// The first command of the text that hands work to another scheduler: "sbatch", "kubectl apply";
// empty: none does.
std::string SubmitterIn(const ShellScript& script);

// A helper like cp or git, or a builtin that executes no text: any other program may be the
// training.
bool TrainsNot(const ShellCommand& command);

// The same for a text in which nothing else runs that could be a training.
std::string OnlySubmits(const ShellScript& script);

// "docker compose up", "tmux new": what a text does that starts something in a container or a
// terminal of its own and nothing else that could be a training; empty: it does more, or nothing of
// that.
std::string OnlyDetaches(const ShellScript& script);

// What is said of it beside a training.
std::optional<Finding> SubmitsBeside(const ShellScript& script);

// The flag of a program that names a file of hosts and is given the command that it starts on each
// of them, as one word; empty: none.
std::string HostsOfCommand(const std::vector<ShellWord>& words);

// What to write instead, for a name that FindRefused gave; empty for another.
std::string HintInsteadOf(std::string_view program);

}  // namespace launch
