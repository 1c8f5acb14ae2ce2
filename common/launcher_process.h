// A process that a launcher started on a node (torchrun inside of a rank that is a node), and the
// line that tells of it among what the node read for an exit report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/launch.h"

namespace launch {

struct LauncherProcess {
  Rank rank = 0;  // of the job, as the launcher counts
  int local_rank = 0;
  std::int64_t pid = 0;          // 0 = not said
  std::optional<ExitCause> end;  // Exited or Signalled; absent: not said
  std::string error;             // class of the exception that its error file names; or empty
  friend bool operator==(const LauncherProcess&, const LauncherProcess&) = default;
};

// How such a line of ExitReport::kernel_lines begins.
inline constexpr std::string_view kProcessLine = "launcher's process: ";

// "launcher's process: rank 3, local rank 1, pid 41, exit 33, ValueError"; "ended by 11" for a
// signal: a release that takes the line for the kernel's must not read a segfault of the node in
// it.
std::string LineOf(const LauncherProcess& process);
// The process that `line` tells of; absent: it is no such line.
std::optional<LauncherProcess> ProcessIn(std::string_view line);
// The processes that the lines of one report tell of, in order.
std::vector<LauncherProcess> ProcessesIn(const std::vector<std::string>& kernel_lines);

}  // namespace launch
