// Slurm's variables in the scripts that an sbatch script calls.
#pragma once

#include <cstdint>
#include <string>

#include "cli/import/import.h"
#include "cli/import/slurm_commands.h"

namespace launch {

// Whether `run`, or a script that it calls, as far as those are found, calls a launcher.
bool CallsLauncher(const std::string& run, const std::string& path, const std::string& workdir);

// The scripts that `run` calls, as far as they are found: from `workdir` (empty: the current
// directory, where sbatch was called) or beside the sbatch script `path`. Their text stays as it
// is, so what they read of Slurm is named with its file and line.
void NoteCalledScripts(const std::string& run, const std::string& path, const std::string& workdir,
                       std::int64_t tasks_per_node, const SlurmNumbers& numbers,
                       JobFileDraft& draft);

}  // namespace launch
