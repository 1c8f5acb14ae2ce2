// Who has a port or a lock that an allocation wants, as far as /proc shows it to this account.
// Looks through all processes of the host: not for the runner's own thread.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "common/launch.h"

namespace launch::agent {

// When a search ends with what it has found: the controller waits for the refusal.
struct HolderSearch {
  const std::atomic<bool>& cancel;
  std::chrono::steady_clock::time_point until;
  std::string proc_root = "/proc";
  bool Over() const { return cancel || std::chrono::steady_clock::now() >= until; }
};

// One line for each port of the range that somebody has, lowest first, eight at most: "port 29502:
// process 4123 (python3 of ana)".
std::vector<std::string> PortHolders(const PortBlock& range, const HolderSearch& search);

// The same for files that are locked: "PATH: process 4123 ...", in one walk for all of them.
std::vector<std::string> LockHolders(const std::vector<std::string>& paths,
                                     const HolderSearch& search);

}  // namespace launch::agent
