// The commands of an sbatch script as those of a job's `run`.
#pragma once

#include <cstdint>
#include <map>
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

// The script's commands without srun in front of them and without the search for a master. What is
// left and works only under Slurm is noted with its line.
std::string SlurmCommands(const SlurmScript& script, SrunUse& srun, JobFileDraft& draft);

// Variables of Slurm whose value the file itself says: SLURM_CPUS_PER_TASK.
using SlurmNumbers = std::map<std::string, std::int64_t>;

// What SlurmCommands made of the script, with our names for Slurm's variables. `srun.launcher`:
// also where a script that it calls does.
std::string WithOurNames(const SlurmScript& script, std::string run, std::int64_t tasks_per_node,
                         const SlurmNumbers& numbers, const SrunUse& srun, JobFileDraft& draft);

// The numbers that are written into the text in place of their variables. Where a launcher is
// called that of GPUs per node is not: NPROC_PER_NODE is there then and follows the job.
SlurmNumbers WrittenOut(const SlurmNumbers& numbers, bool launcher);

// Our variable with the value of Slurm's `name`; empty: there is none. `by_node`: each node has one
// task, which calls a launcher, so that the number of a task is that of its node.
std::string_view TwinOfSlurm(std::string_view name, bool by_node);

}  // namespace launch
