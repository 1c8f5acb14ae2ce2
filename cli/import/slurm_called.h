// Slurm's variables in the scripts that an sbatch script calls.
#pragma once

#include <string>

#include "cli/import/import.h"

namespace launch {

// The scripts that `run` calls, as far as they are found: from `workdir` (empty: the current
// directory, where sbatch was called) or beside the sbatch script `path`. Their text stays as it
// is, so what they read of Slurm is named with its file and line.
void NoteCalledScripts(const std::string& run, const std::string& path, const std::string& workdir,
                       bool task_is_node, JobFileDraft& draft);

}  // namespace launch
