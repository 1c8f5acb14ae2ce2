// Which words in a shell text start ranks by themselves: torchrun, deepspeed, accelerate, mpirun
// ...
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

struct LauncherPlace {
  std::size_t first_flag = 0;  // index of the first word behind the launcher
  std::string launcher;        // the word as written: "torchrun", "/opt/x/bin/torchrun"
  std::string interpreter;     // of "python3 -m torch.distributed.run"; else empty
  bool launch_module = false;  // torch.distributed.launch
};

// torchrun, python -m torch.distributed.run|launch, python $(which torchrun) and
// python .../torch/distributed/run.py at `first`.
std::optional<LauncherPlace> FindTorchrun(const std::vector<ShellWord>& words, std::size_t first);

// deepspeed, python -m deepspeed.launcher.runner, python $(which deepspeed) at `first`.
std::optional<LauncherPlace> FindDeepspeed(const std::vector<ShellWord>& words, std::size_t first);

// accelerate launch, accelerate-launch, python -m accelerate.commands.launch and the like.
std::optional<LauncherPlace> FindAccelerate(const std::vector<ShellWord>& words, std::size_t first);

// A launcher anywhere a command may stand, also behind wrappers and inside bash -c: its name. One
// that is refused (refused_starters.h) counts as well.
std::optional<std::string> FindLauncher(const ShellScript& script);
std::optional<std::string> FindLauncher(const ShellCommand& command);

std::string_view WhichOf(std::string_view raw);     // "$(which X)" and "`which X`": X; else empty
std::string_view ProgramOf(const ShellWord& word);  // the name without its directory

bool IsPython(std::string_view word);  // "python", "python3.11", "/x/bin/python3"
bool CallsPython(const ShellCommand& command);
// Also behind a program that starts it: `apptainer exec x.sif python`.
bool StartsPython(const ShellCommand& command);
bool IsShellBuiltin(std::string_view word);
bool StandsBeforeCommand(std::string_view word);  // "then", "do", "{", "!" ...

}  // namespace launch
