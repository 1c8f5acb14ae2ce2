// Who has a port or a lock that an allocation wants, as far as /proc shows it to this account.
// Looks through all processes of the host: not for the runner's own thread.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/launch.h"

namespace launch::agent {

// One line for each port of the range that somebody has, lowest first, eight at most: "port 29502:
// process 4123 (python3 of ana)".
std::vector<std::string> PortHolders(const PortBlock& range, const std::atomic<bool>& cancel,
                                     const std::string& proc_root = "/proc");

// The same for a file that is locked: "PATH: process 4123 ...".
std::vector<std::string> LockHolders(const std::string& path, const std::atomic<bool>& cancel);

}  // namespace launch::agent
