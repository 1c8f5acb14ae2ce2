// The commands of an sbatch script as those of a job's `run`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/import/import.h"
#include "cli/import/pyxis.h"
#include "cli/import/slurm_options.h"

namespace launch {

struct SrunUse {
  bool any = false;
  bool per_task = false;  // it started something once per task that is no launcher
  bool counts = false;    // it says itself how many tasks: -n, --ntasks, --ntasks-per-node
  bool launcher = false;  // the text calls what starts its own processes, maybe by a variable
  PyxisOptions container;
};

// Without srun in front of commands and without the search for a master, with our names for Slurm's
// variables. What stays and works nowhere else than under Slurm is told with its line.
std::string SlurmCommands(const SlurmScript& script, std::int64_t tasks_per_node, SrunUse& srun,
                          JobFileDraft& draft);

// Our variable with the value of Slurm's `name`; empty: there is none. `task_is_node`: each node
// has one task, so that the number of a task is that of its node.
std::string_view TwinOfSlurm(std::string_view name, bool task_is_node);

}  // namespace launch
