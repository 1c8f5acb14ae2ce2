// `launch up --slurm`: a controller on this machine, nodes out of an allocation.
#pragma once

#include <string>

#include "cli/app.h"
#include "cli/contexts.h"
#include "cli/up/bring_up.h"
#include "cli/up/settings.h"

namespace launch {

struct SlurmWish {
  std::string arguments;    // of sbatch
  std::string address;      // of this machine as the nodes reach it; empty = its name
  int controller_port = 0;  // 0 = the usual one
  up::Settings settings;    // of agents and controller; absent ones stay as they are
};

// The controller, once; another allocation every time. Waits a minute for its nodes, and returns 0
// while Slurm has none free: they come by themselves.
Result<int> UpOnSlurm(const App& app, const SlurmWish& wish, const up::UpOptions& options,
                      Contexts& contexts);

// Ends the cluster's allocations and waits until Slurm has taken their nodes back.
Result<void> EndAllocations(const App& app, const up::HostSet& set);

}  // namespace launch
