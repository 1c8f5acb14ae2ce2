// The commands of an sbatch script as those of a job's `run`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/import/import.h"
#include "cli/import/slurm_options.h"

namespace launch {

// Without srun in front of commands and without the search for a master, with our names for Slurm's
// variables. What stays and works nowhere else than under Slurm is told with its line.
// `per_task`: srun started something once per task that is no launcher.
std::string SlurmCommands(const SlurmScript& script, std::int64_t tasks_per_node, bool& per_task,
                          JobFileDraft& draft);

}  // namespace launch
