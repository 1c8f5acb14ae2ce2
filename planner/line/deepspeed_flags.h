// The flags of DeepSpeed's launcher, read as its own argument parser does.
#pragma once

#include <vector>

#include "common/error.h"
#include "planner/line/launcher_arguments.h"
#include "planner/line/shell_place.h"

namespace launch {

// `words[first]` is the first word behind "deepspeed". --num_gpus and --num_nodes are counts;
// --include names slots, of which the number is taken; a --hostfile whose text is at hand has a
// number of hosts and slots; --exclude and rendezvous flags are replaced by the plan. Like the
// launcher it passes --local_rank=N to the script, unless
// --no_local_rank. kUnimplemented: a flag that is not known or changes what ranks are;
// kInvalidArgument: a value the launcher would refuse, or no script.
// Flags: deepspeed/launcher/runner.py at commit edaa7221.
Result<LauncherArguments> ReadDeepspeed(const std::vector<ShellWord>& words, std::size_t first,
                                        const KnownVariables& known, const TextsAt& texts = {});

// The flag from words[first] on with which no start is made, not inside of a text either
// (node_launcher.py): ReadDeepspeed refuses it; empty: none.
std::string NeverStarted(const std::vector<ShellWord>& words, std::size_t first);

}  // namespace launch
