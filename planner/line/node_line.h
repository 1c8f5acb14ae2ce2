// A text that is started once per node, because a launcher inside it starts the ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "planner/line/called_script.h"
#include "planner/line/launch_line.h"
#include "planner/line/shell_text.h"
#include "planner/line/written_counts.h"

namespace launch {

// `why`: what was seen, for `launch plan`. Counts of the first launcher call with fixed numbers are
// taken (--nproc-per-node, --num_gpus, --num_processes, --nnodes).
// `own`: the processes that the program itself starts. `launcher:` torchrun, deepspeed
// or accelerate puts that program in front of a plain Python command that lacks it;
// kInvalidArgument where the text is not such a command.
Result<LaunchLine> ReadNodeLine(std::string_view text, const ShellScript& script,
                                const LaunchLineOptions& options, std::string why,
                                std::optional<int> own = std::nullopt);

// Why the text starts ranks by itself although no launcher stands in it: a shell script at hand
// that calls one. Empty: there is none. kUnimplemented: it calls nothing but what is
// refused (srun, mpirun).
Result<std::string> LauncherBehind(const WrittenCounts& counts);

// A script that the text runs and that is not at hand, said for a text that starts once per rank.
std::optional<Finding> UnreadScript(const WrittenCounts& counts);

// Whether the text, or a script that it runs, may make a list of the devices that the job gives.
bool ReadsDevices(const ShellScript& script, const WrittenCounts& counts);

// CUDA_VISIBLE_DEVICES of a text is said to be what node_launcher.py makes of it where it is
// called: at a launcher's call, or a program's.
Finding DevicesReplaced(std::optional<int> count, const LaunchLineOptions& options,
                        std::string_view called);

// Files that the text names beyond the number that a job takes along.
std::optional<Finding> FilesLeftOut(const WrittenCounts& counts, const LaunchLineOptions& options);

// A server or `tail -f` in the foreground of the text or of a script that it runs.
std::optional<Finding> EndlessAmong(const ShellScript& script, const WrittenCounts& counts);

// The launchers that wrappers stand for; others (mpirun, srun) cannot be held to a plan.
bool IsWrapped(std::string_view launcher);

// Refuses a text that does nothing but start something in a container or a terminal of its own.
Result<void> CheckTrainsHere(const ShellScript& script,
                             const std::vector<ShellWalk::CalledText>& scripts);

// Refuses a text whose last script leaves what trains in the background and ends.
Result<void> CheckScriptStays(const ShellScript& script,
                              const std::vector<ShellWalk::CalledText>& scripts);

}  // namespace launch
