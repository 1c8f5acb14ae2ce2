// What a launcher that a job runs once per node (torchrun and the like) wrote of its own processes.
#pragma once

#include <string>
#include <vector>

#include "common/launcher_process.h"

namespace launch::agent {

// The lines of processes.jsonl (planner/start/node_launcher.py) in the directory of a rank, by
// rank; none where no launcher wrote there. The job's account may have written anything: what is
// not a process of a launcher is left out.
std::vector<LauncherProcess> LauncherProcessesIn(const std::string& directory);

}  // namespace launch::agent
