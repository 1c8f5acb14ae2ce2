// The programs that hold a launcher inside `run` to the plan, as files of an attempt.
#pragma once

#include <string>
#include <vector>

#include "common/launch.h"

namespace launch {

// torchrun, deepspeed, accelerate and accelerate-launch, each a shell script that is Python too
// (`python $(which torchrun)`), and what they call. They stand in LAUNCH_WRAPPERS; a file that
// begins with "#!" is written executable.
std::vector<GeneratedFile> NodeLauncherFiles();

// `python` and `python3` beside them, for an interpreter that the job names and whose directory,
// which stands on PATH, has it by another word; an environment's own `python` has both words. Not
// links: a venv is found by the path of the interpreter.
std::vector<GeneratedFile> PythonFiles(const std::string& interpreter);

// `python` and `python3` that hold the devices of a program to those of the job, as a launcher's
// are, for the interpreter that the job names; empty: the next one on PATH.
std::vector<GeneratedFile> PythonDeviceFiles(const std::string& interpreter);

}  // namespace launch
