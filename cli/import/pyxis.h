// Pyxis, the plugin of Slurm that starts tasks in containers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/import/import.h"

namespace launch {

// "container-image" and its value, of sbatch or srun; empty: a switch.
using PyxisOptions = std::vector<std::pair<std::string, std::string>>;

// Image and mounts become fields of the job; what has no counterpart is named.
void TakePyxis(const PyxisOptions& options, JobFileDraft& draft);

}  // namespace launch
