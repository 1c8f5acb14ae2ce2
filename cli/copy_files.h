// Files between this machine and the directory that a job works in, as tar archives through a
// command beside a rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client.h"
#include "common/launch.h"

namespace launch {

// "12:out/model.pt": a path of a job, relative to the directory that its rank works in, or
// absolute. Absent: a path of this machine ("out", "./a:b"), for what stands before the colon has
// no slash and names a job (a number, or an element "17_3").
struct JobPath {
  std::string job;
  std::string path;  // "." where nothing stands behind the colon
  friend bool operator==(const JobPath&, const JobPath&) = default;
};
std::optional<JobPath> ParseJobPath(const std::string& text);

// As `cp -r`: into `to` where that is a directory, else as a file or directory of that name. The
// rank must run.
Result<void> CopyFromJob(Client& client, JobId job, Rank rank, const std::string& path,
                         const std::string& to);
// The rank must run. Several only into a directory.
Result<void> CopyToJob(Client& client, JobId job, Rank rank, const std::vector<std::string>& paths,
                       const std::string& to);

}  // namespace launch
