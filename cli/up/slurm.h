// Nodes for a cluster out of Slurm: an allocation whose script starts an agent on each of its
// nodes.
#pragma once

#include <string>
#include <vector>

#include "cli/up/remote.h"
#include "common/error.h"

namespace launch::up {

// What `allocation.sh` needs; every directory is one that the nodes see under the same path.
struct AllocationWish {
  std::string cluster;
  std::string arguments;    // of sbatch: "-p gpu -N 4 -t 8:00:00"
  std::string address;      // of the controller, as the nodes reach it
  std::string credentials;  // directory of an operator's; allocation.sh lies in it
  std::string programs;     // directory of launch, launch-agent, launch-shim
};

// The user's arguments of sbatch as one line for the shell: quotes are understood, nothing is
// expanded. kInvalidArgument when they are not the words of one command.
Result<std::string> SbatchWords(const std::string& arguments);

// Runs sbatch and returns the number of the allocation. kFailedPrecondition: sbatch refused it, in
// its own words; kNotFound: there is no Slurm here.
Result<std::string> SubmitAllocation(Remote& here, const AllocationWish& wish);

// State of an allocation, as squeue reports it.
struct AllocationState {
  std::string state;               // "PENDING", "RUNNING" ...; empty = it is gone
  std::string reason;              // why it waits
  std::vector<std::string> nodes;  // once it runs
};
Result<AllocationState> StateOfAllocation(Remote& here, const std::string& id);

// Asks the allocation's script, by SIGUSR1, to end its agents in good order. An allocation that
// still waits is cancelled; one that is gone already is no error.
Result<void> EndAllocation(Remote& here, const std::string& id);
// Ends the allocation at once by scancel, without telling its script.
Result<void> CancelAllocation(Remote& here, const std::string& id);

}  // namespace launch::up
